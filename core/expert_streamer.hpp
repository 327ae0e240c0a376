// The parts of expert streaming, wired together for one model: what Python holds.
#pragma once

#include "file_buffer.hpp"
#include "router_hook.hpp"
#include "store.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace moestream {

class ExpertStreamer {
  public:
    // Throws std::system_error if a file cannot be opened.
    ExpertStreamer(const std::vector<std::string> & files,
                   bool                             o_direct,
                   const std::string &              routing_node,
                   const std::string &              weights_node);
    ~ExpertStreamer();
    ExpertStreamer(const ExpertStreamer &)             = delete;
    ExpertStreamer & operator=(const ExpertStreamer &) = delete;

    void add_tensor(const std::string & name,
                    int                 layer,
                    int                 order,
                    std::size_t         file,
                    std::uint64_t       offset,
                    std::uint32_t       n_expert,
                    std::uint64_t       stride);

    ggml_backend_buffer_type_t buffer_type() { return buffers_.handle(); }
    // Throws std::runtime_error if llama.cpp did not place what was declared.
    void finish_load();
    // Instead of a load by llama.cpp: places every tensor in memory of our own.
    void place_standalone();
    // Throws std::runtime_error.
    void start(const StoreOptions & options);
    void close();

    ExpertStore & store() { return *store_; }
    RouterHook &  hook() { return *hook_; }

    // Copy of one expert's slice as compute would see it; waits for bytes that are on their way.
    std::vector<std::uint8_t> slice(const std::string & tensor, std::uint32_t expert);

  private:
    bool        locate(const char * name, std::uint64_t & offset) const;
    std::string placed(ggml_tensor * tensor);

    std::size_t                  n_files_;
    std::unique_ptr<ExpertStore> store_;
    std::unique_ptr<RouterHook>  hook_;
    FileBufferType               buffers_;
    MemoryRange                  standalone_;
    bool                         sealed_ = false;
    bool                         closed_ = false;
    int                          generation_;
};

} // namespace moestream

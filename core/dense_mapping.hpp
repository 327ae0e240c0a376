// Dense weights mapped from the file: nothing is read before it is used, nothing is copied.
#pragma once

#include "bus_guard.hpp"
#include "file_buffer.hpp"
#include "shard_file.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace moestream {

class DenseMapping {
  public:
    // Throws std::system_error if a file cannot be opened.
    explicit DenseMapping(std::vector<std::string> files);
    ~DenseMapping();
    DenseMapping(const DenseMapping &)             = delete;
    DenseMapping & operator=(const DenseMapping &) = delete;

    void add(const std::string & name, std::size_t file, std::uint64_t offset, std::uint64_t bytes);

    ggml_backend_buffer_type_t handle() { return type_.handle(); }
    void                       finish_load();
    // Pages that could not be read since, because a file got shorter; they read as zeros.
    std::size_t lost_pages() const;

    // Reads every mapped tensor into the page cache; the bytes touched.
    std::uint64_t warm();

  private:
    struct Tensor {
        std::size_t   file   = 0;
        std::uint64_t offset = 0;
        std::uint64_t bytes  = 0;
    };
    std::string map(ggml_tensor * tensor);

    std::vector<std::string>                files_;
    std::vector<int>                        fds_;
    std::unordered_map<std::string, Tensor> tensors_;
    std::vector<MemoryRange>                mapped_;
    FileBufferType                          type_;
    std::vector<std::unique_ptr<BusGuard>>  guards_;
};

} // namespace moestream

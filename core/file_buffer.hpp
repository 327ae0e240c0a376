// ggml buffer types whose tensors lie where we want them and are not read by llama.cpp's loader.
//
// Each tensor is placed at an address congruent to its file offset modulo the page size, and shown
// to the loader with no elements, so that its read of the tensor is zero bytes long; finish_load()
// gives the tensors their shape back.
#pragma once

#include "ggml_backend_layout.hpp"
#include "mover.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace moestream {

struct FileBufferState;

class FileBufferType {
  public:
    // Where a tensor lies in its file; false if the tensor is not ours (the load then fails).
    using Locate = std::function<bool(const char * name, std::uint64_t & offset)>;
    // Told where a tensor was put. Empty, or what is wrong with that.
    using OnPlaced = std::function<std::string(ggml_tensor * tensor)>;

    FileBufferType(std::string name, Locate locate, OnPlaced on_placed);
    ~FileBufferType();
    FileBufferType(const FileBufferType &)             = delete;
    FileBufferType & operator=(const FileBufferType &) = delete;

    ggml_backend_buffer_type_t handle();
    // Throws std::runtime_error with the first thing that went wrong while loading.
    void finish_load();

    // Memory of all buffers made so far.
    std::vector<MemoryRange> ranges() const;

  private:
    // Shared with the buffers that llama.cpp owns: whoever goes last frees it.
    std::shared_ptr<FileBufferState> state_;
};

} // namespace moestream

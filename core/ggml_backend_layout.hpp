// The layout of ggml's buffer interface (GGML_BACKEND_API_VERSION 2), which the installed headers
// declare but do not define. Only the pinned release is known to have it; abi.cpp checks.
#pragma once

#include "ggml-backend.h"
#include "ggml.h"

#include <cstddef>
#include <cstdint>

namespace moestream::ggml_layout {

constexpr int kApiVersion = 2;

struct BufferTypeInterface {
    const char * (*get_name)(ggml_backend_buffer_type_t);
    ggml_backend_buffer_t (*alloc_buffer)(ggml_backend_buffer_type_t, std::size_t);
    std::size_t (*get_alignment)(ggml_backend_buffer_type_t);
    std::size_t (*get_max_size)(ggml_backend_buffer_type_t);
    std::size_t (*get_alloc_size)(ggml_backend_buffer_type_t, const ggml_tensor *);
    bool (*is_host)(ggml_backend_buffer_type_t);
};

struct BufferType {
    BufferTypeInterface iface;
    ggml_backend_dev_t  device;
    void *              context;
};

struct BufferInterface {
    void (*free_buffer)(ggml_backend_buffer_t);
    void * (*get_base)(ggml_backend_buffer_t);
    ggml_status (*init_tensor)(ggml_backend_buffer_t, ggml_tensor *);
    void (*memset_tensor)(ggml_backend_buffer_t, ggml_tensor *, std::uint8_t, std::size_t, std::size_t);
    void (*set_tensor)(ggml_backend_buffer_t, ggml_tensor *, const void *, std::size_t, std::size_t);
    void (*get_tensor)(ggml_backend_buffer_t, const ggml_tensor *, void *, std::size_t, std::size_t);
    void (*set_tensor_2d)(ggml_backend_buffer_t,
                          ggml_tensor *,
                          const void *,
                          std::size_t,
                          std::size_t,
                          std::size_t,
                          std::size_t,
                          std::size_t);
    void (*get_tensor_2d)(ggml_backend_buffer_t,
                          const ggml_tensor *,
                          void *,
                          std::size_t,
                          std::size_t,
                          std::size_t,
                          std::size_t,
                          std::size_t);
    bool (*cpy_tensor)(ggml_backend_buffer_t, const ggml_tensor *, ggml_tensor *);
    void (*clear)(ggml_backend_buffer_t, std::uint8_t);
    void (*reset)(ggml_backend_buffer_t);
};

struct Buffer {
    BufferInterface            iface;
    ggml_backend_buffer_type_t buft;
    void *                     context;
    std::size_t                size;
    ggml_backend_buffer_usage  usage;
};

// Exported by ggml, declared in the header that is not installed.
extern "C" ggml_backend_buffer_t
ggml_backend_buffer_init(ggml_backend_buffer_type_t buft, BufferInterface iface, void * context, std::size_t size);

} // namespace moestream::ggml_layout

#include "abi.hpp"

#include "ggml_backend_layout.hpp"

#include "llama.h"

#include <cstring>

namespace moestream {

namespace {

std::string differs(const char * what, std::size_t ours, std::size_t theirs) {
    return std::string(what) + " has " + std::to_string(theirs) + " where " + std::to_string(ours) + " was expected";
}

} // namespace

std::string check_abi(std::size_t model_params_size, std::size_t context_params_size) {
    if (model_params_size != sizeof(llama_model_params)) {
        return differs("llama_model_params in the Python bindings", sizeof(llama_model_params), model_params_size);
    }
    if (context_params_size != sizeof(llama_context_params)) {
        return differs("llama_context_params in the Python bindings", sizeof(llama_context_params),
                       context_params_size);
    }
    ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    if (cpu == nullptr) {
        return "llama.cpp reports no CPU backend";
    }
    // The registry entry begins with the version of the interface that ggml_backend_layout.hpp mirrors.
    int api_version = 0;
    std::memcpy(&api_version, ggml_backend_dev_backend_reg(cpu), sizeof api_version);
    if (api_version != ggml_layout::kApiVersion) {
        return differs("ggml's backend interface version", ggml_layout::kApiVersion,
                       static_cast<std::size_t>(api_version));
    }
    // The mirrored layout, read from a buffer type and a buffer that ggml made.
    ggml_backend_buffer_type_t handle = ggml_backend_cpu_buffer_type();
    const auto *               type   = reinterpret_cast<const ggml_layout::BufferType *>(handle);
    if (type->iface.get_name(handle) != ggml_backend_buft_name(handle) ||
        type->iface.get_alignment(handle) != ggml_backend_buft_get_alignment(handle)) {
        return "ggml's buffer type interface is laid out differently";
    }
    ggml_backend_buffer_t buffer = ggml_backend_buft_alloc_buffer(handle, 4096);
    if (buffer == nullptr) {
        return "ggml cannot allocate a buffer of 4096 bytes";
    }
    const auto * view  = reinterpret_cast<const ggml_layout::Buffer *>(buffer);
    const bool   alike = view->buft == handle && view->size == ggml_backend_buffer_get_size(buffer) &&
                       view->iface.get_base(buffer) == ggml_backend_buffer_get_base(buffer) &&
                       view->usage == ggml_backend_buffer_get_usage(buffer);
    ggml_backend_buffer_free(buffer);
    if (!alike) {
        return "ggml's buffer interface is laid out differently";
    }
    return {};
}

} // namespace moestream

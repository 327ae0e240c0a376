#include "file_buffer.hpp"

#include "os.hpp"

#include <cstring>
#include <stdexcept>
#include <utility>

namespace moestream {

using ggml_layout::Buffer;
using ggml_layout::BufferInterface;
using ggml_layout::BufferType;

struct FileBufferState : std::enable_shared_from_this<FileBufferState> {
    BufferType                 type{};
    std::string                name;
    FileBufferType::Locate     locate;
    FileBufferType::OnPlaced   on_placed;
    std::vector<ggml_tensor *> hollow; // shown to the loader without elements
    std::vector<MemoryRange>   ranges;
    std::string                error;
};

namespace {

// One allocation; owned by llama.cpp.
struct Allocation {
    std::shared_ptr<FileBufferState> state;
    MemoryRange                      memory;
    int                              generation;
};

// llama.cpp calls these from C++ code of its own, built with other settings: nothing may be thrown
// through it.
template <typename Result, typename Call> Result guarded(Result on_exception, Call call) noexcept {
    try {
        return call();
    } catch (...) {
        return on_exception;
    }
}

Allocation & allocation_of(ggml_backend_buffer_t buffer) {
    return *static_cast<Allocation *>(reinterpret_cast<Buffer *>(buffer)->context);
}

std::size_t get_alignment(ggml_backend_buffer_type_t) {
    return 64;
}

std::size_t get_alloc_size(ggml_backend_buffer_type_t, const ggml_tensor * tensor) {
    return ggml_nbytes(tensor) + 2 * os::page_size();
}

bool is_host(ggml_backend_buffer_type_t) {
    return true;
}

void free_buffer(ggml_backend_buffer_t buffer) {
    const Allocation * allocation = &allocation_of(buffer);
    if (allocation->memory.base != nullptr && allocation->generation == os::fork_generation()) {
        os::release(allocation->memory.base, allocation->memory.bytes);
    }
    delete allocation;
}

void * get_base(ggml_backend_buffer_t buffer) {
    return allocation_of(buffer).memory.base;
}

// Weights are never written through ggml: their bytes come from the file.
void memset_tensor(ggml_backend_buffer_t, ggml_tensor *, std::uint8_t, std::size_t, std::size_t) {}
void set_tensor(ggml_backend_buffer_t, ggml_tensor *, const void *, std::size_t, std::size_t) {}
void clear(ggml_backend_buffer_t, std::uint8_t) {}

void get_tensor(ggml_backend_buffer_t, const ggml_tensor * t, void * to, std::size_t offset, std::size_t n) {
    std::memcpy(to, static_cast<const std::uint8_t *>(t->data) + offset, n);
}

} // namespace

FileBufferType::FileBufferType(std::string name, Locate locate, OnPlaced on_placed) :
    state_(std::make_shared<FileBufferState>()) {
    state_->name      = std::move(name);
    state_->locate    = std::move(locate);
    state_->on_placed = std::move(on_placed);

    auto & iface         = state_->type.iface;
    state_->type.context = state_.get();
    iface.get_alignment  = get_alignment;
    iface.get_alloc_size = get_alloc_size;
    iface.is_host        = is_host;

    iface.get_name = [](ggml_backend_buffer_type_t type) {
        return static_cast<FileBufferState *>(reinterpret_cast<BufferType *>(type)->context)->name.c_str();
    };

    const auto init_tensor = [](ggml_backend_buffer_t buffer, ggml_tensor * tensor) {
        FileBufferState * state = allocation_of(buffer).state.get();
        return guarded(GGML_STATUS_FAILED, [&] {
            std::uint64_t offset = 0;
            if (!state->locate(tensor->name, offset)) {
                state->error = std::string("llama.cpp asked for a tensor nobody declared: ") + tensor->name;
                return GGML_STATUS_FAILED;
            }
            const std::size_t page    = os::page_size();
            const auto        address = reinterpret_cast<std::uintptr_t>(tensor->data);
            tensor->data              = reinterpret_cast<void *>((address + page - 1) / page * page + offset % page);
            if (std::string wrong = state->on_placed(tensor); !wrong.empty()) {
                state->error = wrong;
                return GGML_STATUS_FAILED;
            }
            tensor->ne[3] = 0;
            state->hollow.push_back(tensor);
            return GGML_STATUS_SUCCESS;
        });
    };

    static BufferInterface buffer_iface{};
    buffer_iface.free_buffer   = free_buffer;
    buffer_iface.get_base      = get_base;
    buffer_iface.init_tensor   = init_tensor;
    buffer_iface.memset_tensor = memset_tensor;
    buffer_iface.set_tensor    = set_tensor;
    buffer_iface.get_tensor    = get_tensor;
    buffer_iface.clear         = clear;

    iface.alloc_buffer = [](ggml_backend_buffer_type_t type, std::size_t bytes) -> ggml_backend_buffer_t {
        auto * state = static_cast<FileBufferState *>(reinterpret_cast<BufferType *>(type)->context);
        return guarded<ggml_backend_buffer_t>(nullptr, [&]() -> ggml_backend_buffer_t {
            const std::size_t page  = os::page_size();
            MemoryRange       range = { nullptr, (bytes + 2 * page - 1) / page * page };
            range.base              = os::reserve(range.bytes);
            if (range.base == nullptr) {
                state->error = "no address space for " + std::to_string(range.bytes) + " bytes of weights";
                return nullptr;
            }
            state->ranges.push_back(range);
            auto * allocation = new Allocation{ state->shared_from_this(), range, os::fork_generation() };
            return ggml_layout::ggml_backend_buffer_init(type, buffer_iface, allocation, bytes);
        });
    };
}

FileBufferType::~FileBufferType() = default;

ggml_backend_buffer_type_t FileBufferType::handle() {
    return reinterpret_cast<ggml_backend_buffer_type_t>(&state_->type);
}

void FileBufferType::finish_load() {
    for (ggml_tensor * tensor : state_->hollow) {
        tensor->ne[3] = 1;
    }
    state_->hollow.clear();
    if (!state_->error.empty()) {
        throw std::runtime_error(state_->error);
    }
}

std::vector<MemoryRange> FileBufferType::ranges() const {
    return state_->ranges;
}

} // namespace moestream

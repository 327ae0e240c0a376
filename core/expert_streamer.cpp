#include "expert_streamer.hpp"

#include "os.hpp"

#include <cstring>
#include <stdexcept>

namespace moestream {

ExpertStreamer::ExpertStreamer(const std::vector<std::string> & files,
                               bool                             o_direct,
                               const std::string &              routing_node,
                               const std::string &              weights_node) :
    n_files_(files.size()),
    store_(std::make_unique<ExpertStore>(files, o_direct)),
    hook_(std::make_unique<RouterHook>(*store_, routing_node, weights_node)),
    buffers_(
        "moestream-experts",
        [this](const char * name, std::uint64_t & offset) { return locate(name, offset); },
        [this](ggml_tensor * tensor) { return placed(tensor); }),
    generation_(os::fork_generation()) {}

ExpertStreamer::~ExpertStreamer() {
    close();
    if (os::fork_generation() != generation_) {
        // Threads, locks and memory are the parent's; a child can only let go of the names.
        (void) hook_.release();
        (void) store_.release();
    }
}

void ExpertStreamer::add_tensor(const std::string & name,
                                int                 layer,
                                int                 order,
                                std::size_t         file,
                                std::uint64_t       offset,
                                std::uint32_t       n_expert,
                                std::uint64_t       stride) {
    if (sealed_) {
        throw std::runtime_error("tensors must be declared before the model is loaded");
    }
    if (file >= n_files_) {
        throw std::runtime_error("tensor " + name + " lies in a file nobody named");
    }
    store_->table().add(name, layer, order, file, offset, n_expert, stride);
}

bool ExpertStreamer::locate(const char * name, std::uint64_t & offset) const {
    const ExpertTensor * tensor = store_->table().find(name);
    if (tensor == nullptr) {
        return false;
    }
    offset = tensor->offset;
    return true;
}

std::string ExpertStreamer::placed(ggml_tensor * tensor) {
    ExpertTensor & known = *store_->table().find(tensor->name);
    if (tensor->ne[2] != static_cast<std::int64_t>(known.n_expert) || tensor->nb[2] != known.stride ||
        tensor->ne[3] != 1) {
        return "tensor " + known.name + " has another shape in llama.cpp than in the file";
    }
    known.data = static_cast<std::uint8_t *>(tensor->data);
    hook_->watch(tensor, known.layer);
    return {};
}

void ExpertStreamer::finish_load() {
    buffers_.finish_load();
    store_->table().seal();
    sealed_ = true;
    for (const MemoryRange & range : buffers_.ranges()) {
        store_->add_arena(range);
    }
}

void ExpertStreamer::place_standalone() {
    const std::size_t page  = os::page_size();
    std::size_t       bytes = page;
    for (const auto & tensor : store_->table().tensors()) {
        bytes += (tensor->bytes() + 3 * page - 1) / page * page;
    }
    standalone_ = { os::reserve(bytes), bytes };
    if (standalone_.base == nullptr) {
        throw std::runtime_error("no address space for " + std::to_string(bytes) + " bytes");
    }
    std::uint8_t * next = standalone_.base;
    for (const auto & tensor : store_->table().tensors()) {
        tensor->data = next + tensor->offset % page;
        next += (tensor->offset % page + tensor->bytes() + page - 1) / page * page;
    }
    store_->table().seal();
    sealed_ = true;
    store_->add_arena(standalone_);
}

void ExpertStreamer::start(const StoreOptions & options) {
    if (!sealed_) {
        throw std::runtime_error("start() before finish_load()");
    }
    store_->start(options);
}

void ExpertStreamer::close() {
    if (!closed_ && os::fork_generation() == generation_) {
        closed_ = true;
        store_->stop();
        if (standalone_.base != nullptr) {
            os::release(standalone_.base, standalone_.bytes);
        }
    }
}

std::vector<std::uint8_t> ExpertStreamer::slice(const std::string & name, std::uint32_t expert) {
    const ExpertTensor * tensor = store_->table().find(name);
    if (tensor == nullptr || !sealed_ || closed_ || expert >= tensor->n_expert) {
        throw std::runtime_error("no slice " + std::to_string(expert) + " of tensor " + name);
    }
    std::vector<std::uint8_t> bytes(tensor->stride);
    std::memcpy(bytes.data(), tensor->data + expert * tensor->stride, bytes.size());
    return bytes;
}

} // namespace moestream

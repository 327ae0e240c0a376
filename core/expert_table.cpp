#include "expert_table.hpp"

#include "os.hpp"

#include <algorithm>
#include <stdexcept>

namespace moestream {

namespace {

std::uint8_t * page_down(std::uint8_t * address) {
    const std::size_t page = os::page_size();
    return reinterpret_cast<std::uint8_t *>(reinterpret_cast<std::uintptr_t>(address) / page * page);
}

} // namespace

std::uint8_t * ExpertTensor::first_page() const {
    return page_down(data);
}

std::size_t ExpertTensor::page_index(const std::uint8_t * page) const {
    return static_cast<std::size_t>(page - first_page()) / os::page_size();
}

std::uint64_t ExpertTensor::file_offset(const std::uint8_t * page) const {
    return offset - static_cast<std::uint64_t>(data - first_page()) + static_cast<std::uint64_t>(page - first_page());
}

std::size_t PageRun::bytes() const {
    return pages * os::page_size();
}

std::uint64_t Layer::expert_bytes() const {
    std::uint64_t sum = 0;
    for (const ExpertTensor * tensor : tensors) {
        sum += tensor->stride;
    }
    return sum;
}

ExpertTensor & ExpertTable::add(std::string   name,
                                int           layer,
                                int           order,
                                std::size_t   file,
                                std::uint64_t offset,
                                std::uint32_t n_expert,
                                std::uint64_t stride) {
    if (n_expert == 0 || stride == 0) {
        throw std::runtime_error("expert tensor " + name + " is empty");
    }
    auto tensor      = std::make_unique<ExpertTensor>();
    tensor->name     = std::move(name);
    tensor->layer    = layer;
    tensor->order    = order;
    tensor->file     = file;
    tensor->offset   = offset;
    tensor->n_expert = n_expert;
    tensor->stride   = stride;
    if (!by_name_.emplace(tensor->name, tensor.get()).second) {
        throw std::runtime_error("expert tensor " + tensor->name + " was declared twice");
    }
    tensors_.push_back(std::move(tensor));
    return *tensors_.back();
}

void ExpertTable::seal() {
    const std::size_t           page = os::page_size();
    std::vector<ExpertTensor *> sorted;
    for (const auto & tensor : tensors_) {
        if (tensor->data == nullptr) {
            throw std::runtime_error("expert tensor " + tensor->name + " was not loaded by llama.cpp");
        }
        sorted.push_back(tensor.get());
    }
    std::sort(sorted.begin(), sorted.end(), [](const ExpertTensor * a, const ExpertTensor * b) {
        return a->layer != b->layer ? a->layer < b->layer : a->order < b->order;
    });
    for (ExpertTensor * tensor : sorted) {
        if (layers_.empty() || layers_.back().index != tensor->layer) {
            layer_at_[tensor->layer] = layers_.size();
            layers_.push_back({ tensor->layer, tensor->n_expert, {}, n_groups() });
            group_layer_.insert(group_layer_.end(), tensor->n_expert, static_cast<std::uint32_t>(layers_.size() - 1));
        }
        Layer & layer = layers_.back();
        if (layer.n_expert != tensor->n_expert) {
            throw std::runtime_error("expert tensor " + tensor->name + " has " + std::to_string(tensor->n_expert) +
                                     " experts, others of its layer " + std::to_string(layer.n_expert));
        }
        layer.tensors.push_back(tensor);
        max_slices_ = std::max(max_slices_, layer.tensors.size());
        if (tensor->stride % page != 0 || tensor->offset % page != 0) {
            tensor->shared.resize(tensor->page_index(page_down(tensor->data + tensor->bytes() - 1)) + 1);
        }
    }
    by_address_ = std::move(sorted);
    std::sort(by_address_.begin(), by_address_.end(),
              [](const ExpertTensor * a, const ExpertTensor * b) { return a->data < b->data; });
}

ExpertTensor * ExpertTable::find(const std::string & name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
}

const Layer * ExpertTable::layer(int index) const {
    const auto found = layer_at_.find(index);
    return found == layer_at_.end() ? nullptr : &layers_[found->second];
}

std::size_t ExpertTable::slice_pages(const ExpertTensor & tensor) {
    const std::size_t page    = os::page_size();
    const std::size_t whole   = (tensor.stride + page - 1) / page;
    const bool        aligned = tensor.stride % page == 0 && tensor.offset % page == 0;
    return aligned ? whole : whole + 1;
}

std::size_t ExpertTable::group_pages(const Layer & layer) {
    std::size_t sum = 0;
    for (const ExpertTensor * tensor : layer.tensors) {
        sum += slice_pages(*tensor);
    }
    return sum;
}

ExpertTensor * ExpertTable::tensor_at(const std::uint8_t * page) const {
    auto after = std::upper_bound(
        by_address_.begin(), by_address_.end(), page,
        [](const std::uint8_t * address, const ExpertTensor * t) { return address < t->first_page(); });
    if (after == by_address_.begin()) {
        return nullptr;
    }
    ExpertTensor * tensor = *std::prev(after);
    return page < tensor->data + tensor->bytes() ? tensor : nullptr;
}

} // namespace moestream

// Which bytes of which file belong to which expert, and where they lie in memory.
//
// An expert *tensor* holds the matrices of all experts of a layer behind each other; the part that
// belongs to one expert is its *slice*. The slices of one expert (gate, up, down) form a *group*:
// they are routed, and evicted, together. A tensor is placed at an address congruent to its file
// offset modulo the page size, so that every page of memory is exactly one page of the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace moestream {

struct ExpertTensor {
    std::string    name;
    int            layer    = 0;
    int            order    = 0; // rank by use within the layer
    std::size_t    file     = 0;
    std::uint64_t  offset   = 0; // of the tensor's first byte in the file
    std::uint32_t  n_expert = 0;
    std::uint64_t  stride   = 0; // bytes of one slice
    std::uint8_t * data     = nullptr;

    // Slices need not begin and end on page boundaries. A page shared by neighbours stays while
    // one of them is resident. Empty where every slice has its pages to itself.
    struct SharedPage {
        std::uint16_t users     = 0; // slices loading or resident that need the page
        bool          installed = false;
    };
    std::vector<SharedPage> shared;
    // Held while pages of this tensor are brought in or taken away.
    std::mutex moving;

    std::uint64_t  bytes() const { return stride * n_expert; }
    std::uint8_t * first_page() const;
    std::size_t    page_index(const std::uint8_t * page) const;
    std::uint64_t  file_offset(const std::uint8_t * page) const;
};

// Whole pages of one tensor, contiguous in memory and in the file.
struct PageRun {
    ExpertTensor * tensor = nullptr;
    std::uint8_t * begin  = nullptr;
    std::size_t    pages  = 0;

    std::size_t   bytes() const;
    std::uint64_t file_offset() const { return tensor->file_offset(begin); }
};

struct Layer {
    int                         index    = 0; // as in blk.<index>
    std::uint32_t               n_expert = 0;
    std::vector<ExpertTensor *> tensors;         // in order of use
    std::uint32_t               first_group = 0; // groups of a layer are numbered by expert
    std::uint64_t               expert_bytes() const;
};

class ExpertTable {
  public:
    ExpertTensor & add(std::string   name,
                       int           layer,
                       int           order,
                       std::size_t   file,
                       std::uint64_t offset,
                       std::uint32_t n_expert,
                       std::uint64_t stride);
    // Call once, when every tensor was added and placed. Throws std::runtime_error if one is not
    // placed, or the tensors of a layer disagree on the number of experts.
    void seal();

    ExpertTensor * find(const std::string & name) const;
    const Layer *  layer(int index) const;
    const Layer &  layer_of_group(std::uint32_t group) const { return layers_[group_layer_[group]]; }
    std::uint32_t  n_groups() const { return static_cast<std::uint32_t>(group_layer_.size()); }
    std::size_t    max_slices() const { return max_slices_; }

    const std::vector<std::unique_ptr<ExpertTensor>> & tensors() const { return tensors_; }
    const std::vector<Layer> &                         layers() const { return layers_; }

    // Pages that one slice can cover at most, and one group; bounds, not exact counts.
    static std::size_t slice_pages(const ExpertTensor & tensor);
    static std::size_t group_pages(const Layer & layer);

    // The tensor whose pages contain `page`, or nullptr.
    ExpertTensor * tensor_at(const std::uint8_t * page) const;

  private:
    std::vector<std::unique_ptr<ExpertTensor>>      tensors_;
    std::unordered_map<std::string, ExpertTensor *> by_name_;
    std::vector<Layer>                              layers_;
    std::unordered_map<int, std::size_t>            layer_at_;
    std::vector<std::uint32_t>                      group_layer_;
    std::vector<ExpertTensor *>                     by_address_;
    std::size_t                                     max_slices_ = 0;
};

} // namespace moestream

// For kernels with userfaultfd but without UFFDIO_MOVE (before 6.8).
#include "mover.hpp"
#include "os.hpp"

#include <atomic>

namespace moestream {

namespace {

class CopyMover final : public PageMover {
  public:
    ~CopyMover() override {
        if (buffers_ != nullptr) {
            os::release(buffers_, buffer_bytes_ * lanes_);
        }
    }

    const char * name() const override { return "copy"; }

    std::string start(const Config & config) override {
        lanes_        = config.lanes;
        buffer_bytes_ = config.max_run_pages * os::page_size();
        capacity_     = config.capacity_pages;
        held_         = config.max_run_pages * lanes_;
        buffers_      = os::reserve(buffer_bytes_ * lanes_);
        if (buffers_ == nullptr) {
            return "no address space for the read buffers";
        }
        if (std::string error = fault_.open(); !error.empty()) {
            return error;
        }
        for (const MemoryRange & range : config.arena) {
            if (std::string error = fault_.watch(range.base, range.bytes); !error.empty()) {
                return error;
            }
        }
        return {};
    }

    std::uint8_t * take(std::size_t lane, const PageRun & run) override {
        if (held_.load() + run.pages > capacity_) {
            return nullptr;
        }
        held_ += run.pages;
        return buffers_ + lane * buffer_bytes_;
    }

    std::string install(std::size_t, const PageRun & run, std::uint8_t * from) override {
        std::size_t skipped = 0;
        std::string error   = fault_.copy(run.begin, from, run.bytes(), skipped);
        held_ -= skipped;
        return error;
    }

    std::string evict(std::size_t, const PageRun & run) override {
        os::discard(run.begin, run.bytes());
        held_ -= run.pages;
        return {};
    }

    std::size_t held_pages() const override { return held_.load(); }
    Userfault * faults() override { return &fault_; }

  private:
    Userfault                fault_;
    std::uint8_t *           buffers_      = nullptr;
    std::size_t              buffer_bytes_ = 0;
    std::size_t              lanes_        = 0;
    std::size_t              capacity_     = 0;
    std::atomic<std::size_t> held_{ 0 };
};

} // namespace

std::unique_ptr<PageMover> make_copy_mover() {
    return std::make_unique<CopyMover>();
}

} // namespace moestream

// The mover that works everywhere: pages of the arena are written directly.
#include "mover.hpp"
#include "os.hpp"

#include <atomic>

namespace moestream {

namespace {

class InplaceMover final : public PageMover {
  public:
    const char * name() const override { return "inplace"; }

    std::string start(const Config & config) override {
        capacity_ = config.capacity_pages;
        return {};
    }

    std::uint8_t * take(std::size_t, const PageRun & run) override {
        if (held_.load() + run.pages > capacity_) {
            return nullptr;
        }
        held_ += run.pages;
        return run.begin;
    }

    bool        prepare(const PageRun & run) override { return os::commit(run.begin, run.bytes()); }
    std::string install(std::size_t, const PageRun &, std::uint8_t *) override { return {}; }
    void        discount(std::size_t pages) override { held_ -= pages; }

    std::string evict(std::size_t, const PageRun & run) override {
        os::discard(run.begin, run.bytes());
        held_ -= run.pages;
        return {};
    }

    std::size_t held_pages() const override { return held_.load(); }

  private:
    std::size_t              capacity_ = 0;
    std::atomic<std::size_t> held_{ 0 };
};

} // namespace

std::unique_ptr<PageMover> make_inplace_mover() {
    return std::make_unique<InplaceMover>();
}

} // namespace moestream

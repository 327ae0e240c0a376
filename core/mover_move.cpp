// Pages are allocated once, then only moved: from a lane's stack into the arena and back.
//
// Allocating a page costs many times what reading into an existing one does, so nothing is ever
// given back to the kernel. Free pages live on one *stack* per lane: the present pages are always
// the lowest ones of a reserved range, so that a read of any length finds contiguous memory at the
// top and an evicted run of any length fits on top. Pages not yet allocated come from the *fresh*
// range: a background thread faults it in from the low end, and a lane that cannot wait takes from
// the high end.
#include "mover.hpp"
#include "os.hpp"

#include <atomic>
#include <mutex>

namespace moestream {

namespace {

class Range {
  public:
    Range() = default;
    ~Range() {
        if (base_ != nullptr) {
            os::release(base_, bytes_);
        }
    }
    Range(Range && other) noexcept : base_(other.base_), bytes_(other.bytes_) { other.base_ = nullptr; }
    Range(const Range &)             = delete;
    Range & operator=(const Range &) = delete;
    Range & operator=(Range &&)      = delete;

    bool reserve(std::size_t pages) {
        bytes_ = pages * os::page_size();
        base_  = os::reserve(bytes_);
        return base_ != nullptr;
    }
    std::uint8_t * page(std::size_t index) const { return base_ + index * os::page_size(); }
    std::size_t    bytes() const { return bytes_; }
    bool           contains(const std::uint8_t * p) const { return p >= base_ && p < base_ + bytes_; }

  private:
    std::uint8_t * base_  = nullptr;
    std::size_t    bytes_ = 0;
};

struct Stack {
    std::mutex  mutex;
    Range       range;
    std::size_t top      = 0; // pages [0, top) are present
    std::size_t reserved = 0; // of these, the last are being read into
};

class MoveMover final : public PageMover {
  public:
    const char * name() const override { return "move"; }

    std::string start(const Config & config) override {
        capacity_ = config.capacity_pages;
        ahead_    = kAheadBytes / os::page_size();
        stacks_   = std::vector<Stack>(config.lanes + 1);
        if (std::string error = fault_.open(); !error.empty()) {
            return error;
        }
        for (const MemoryRange & range : config.arena) {
            if (std::string error = fault_.watch(range.base, range.bytes); !error.empty()) {
                return error;
            }
        }
        if (!fresh_.reserve(capacity_)) {
            return "no address space for the page pool";
        }
        for (Stack & stack : stacks_) {
            if (!stack.range.reserve(capacity_)) {
                return "no address space for the page pool";
            }
            if (std::string error = fault_.watch(stack.range.page(0), stack.range.bytes()); !error.empty()) {
                return error;
            }
        }
        return {};
    }

    std::uint8_t * take(std::size_t lane, const PageRun & run) override {
        Stack &                     own = stacks_[lane];
        std::lock_guard<std::mutex> own_lock(own.mutex);
        if (own.top < run.pages) {
            if (std::uint8_t * fresh = take_fresh(run.pages)) {
                return fresh;
            }
            steal(lane, run.pages - own.top);
        }
        if (own.top < run.pages) {
            return nullptr;
        }
        own.reserved = run.pages;
        return own.range.page(own.top - run.pages);
    }

    std::string install(std::size_t lane, const PageRun & run, std::uint8_t * from) override {
        Stack &                     own = stacks_[lane];
        std::lock_guard<std::mutex> lock(own.mutex);
        std::vector<std::uint8_t *> left_over;
        std::size_t                 done  = 0;
        std::string                 error = fault_.move(run.begin, from, run.bytes(), left_over, done);
        for (; done < run.bytes(); done += os::page_size()) {
            left_over.push_back(from + done);
        }
        if (!fresh_.contains(from)) {
            own.top -= own.reserved;
            own.reserved = 0;
        }
        for (std::uint8_t * page : left_over) {
            if (page == own.range.page(own.top)) {
                ++own.top;
            } else if (std::string push_error = push(own, page, 1); error.empty()) {
                error = push_error;
            }
        }
        return error;
    }

    std::string evict(std::size_t lane, const PageRun & run) override {
        Stack &                     own = stacks_[lane];
        std::lock_guard<std::mutex> lock(own.mutex);
        return push(own, run.begin, run.pages);
    }

    std::size_t held_pages() const override {
        std::lock_guard<std::mutex> lock(fresh_mutex_);
        return claimed_low_ + taken_high_;
    }

    bool prefault() override {
        std::size_t begin = 0;
        std::size_t count = 0;
        {
            std::lock_guard<std::mutex> lock(fresh_mutex_);
            const std::size_t           room = capacity_ - claimed_low_ - taken_high_;
            const std::size_t           lead = claimed_low_ - taken_low_;
            if (room == 0 || lead >= ahead_ || no_populate_) {
                return false;
            }
            count = std::min(room, kPrefaultBytes / os::page_size());
            begin = claimed_low_;
            claimed_low_ += count;
        }
        const bool                  done = os::populate(fresh_.page(begin), count * os::page_size());
        std::lock_guard<std::mutex> lock(fresh_mutex_);
        // Even if the kernel would not populate: a read into the pages allocates them, too.
        ready_low_   = claimed_low_;
        no_populate_ = !done;
        return done;
    }

    Userfault * faults() override { return &fault_; }

  private:
    static constexpr std::size_t kAheadBytes    = std::size_t{ 256 } << 20;
    static constexpr std::size_t kPrefaultBytes = std::size_t{ 1 } << 20;

    std::uint8_t * take_fresh(std::size_t pages) {
        std::lock_guard<std::mutex> lock(fresh_mutex_);
        if (ready_low_ - taken_low_ >= pages) {
            taken_low_ += pages;
            return fresh_.page(taken_low_ - pages);
        }
        if (claimed_low_ + taken_high_ + pages <= capacity_) {
            taken_high_ += pages;
            return fresh_.page(capacity_ - taken_high_);
        }
        // The last scraps, too small for this run, still count as held: hand them to the stacks.
        return nullptr;
    }

    // Moves up to `pages` free pages from other stacks on top of the lane's own.
    void steal(std::size_t lane, std::size_t pages) {
        sweep_fresh(lane);
        for (std::size_t i = stacks_.size(); i-- > 0 && stacks_[lane].top < capacity_ && pages > 0;) {
            if (i == lane) {
                continue;
            }
            Stack &                      other = stacks_[i];
            std::unique_lock<std::mutex> lock(other.mutex, std::try_to_lock);
            if (!lock.owns_lock() || other.reserved > 0 || other.top == 0) {
                continue;
            }
            const std::size_t count = std::min(pages, other.top);
            push(stacks_[lane], other.range.page(other.top - count), count);
            other.top -= count;
            pages -= count;
        }
    }

    // Ready pages at the end of the fresh range that no run will fit into any more.
    void sweep_fresh(std::size_t lane) {
        std::uint8_t * from  = nullptr;
        std::size_t    count = 0;
        {
            std::lock_guard<std::mutex> lock(fresh_mutex_);
            if (claimed_low_ != ready_low_) {
                return; // the background thread is at work right there
            }
            const std::size_t room = capacity_ - claimed_low_ - taken_high_;
            count                  = ready_low_ - taken_low_ + room;
            from                   = fresh_.page(taken_low_);
            taken_low_ = ready_low_ = claimed_low_ = ready_low_ + room;
        }
        if (count > 0) {
            os::populate(from, count * os::page_size());
            push(stacks_[lane], from, count);
        }
    }

    // On top of a stack whose mutex is held.
    std::string push(Stack & stack, std::uint8_t * from, std::size_t pages) {
        std::vector<std::uint8_t *> left_over;
        std::size_t                 done = 0;
        std::string error = fault_.move(stack.range.page(stack.top), from, pages * os::page_size(), left_over, done);
        if (error.empty() && !left_over.empty()) {
            error = "a free page was in use";
        }
        stack.top += done / os::page_size();
        return error;
    }

    Userfault          fault_;
    Range              fresh_;
    std::vector<Stack> stacks_; // one per lane, and one that belongs to nobody
    std::size_t        capacity_ = 0;
    std::size_t        ahead_    = 0;

    // fresh_ from below: taken_low_ <= ready_low_ <= claimed_low_ <= capacity_ - taken_high_
    mutable std::mutex fresh_mutex_;
    std::size_t        taken_low_   = 0;
    std::size_t        ready_low_   = 0;
    std::size_t        claimed_low_ = 0;
    std::size_t        taken_high_  = 0;
    bool               no_populate_ = false;
};

} // namespace

std::unique_ptr<PageMover> make_move_mover() {
    return std::make_unique<MoveMover>();
}

} // namespace moestream

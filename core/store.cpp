#include "store.hpp"

#include "os.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace moestream {

ExpertStore::ExpertStore(std::vector<std::string> files, bool o_direct) : want_direct_io_(o_direct) {
    files_.reserve(files.size());
    for (std::string & file : files) {
        files_.emplace_back(std::move(file));
    }
}

ExpertStore::~ExpertStore() {
    stop();
}

// ---- start and stop ------------------------------------------------------------------------------

std::uint64_t ExpertStore::floor_pages(std::size_t lanes, std::uint32_t n_ubatch, std::uint32_t n_expert_used) const {
    std::uint64_t layer_pages = 0;
    std::uint64_t group_pages = 0;
    for (const Layer & layer : table_.layers()) {
        const std::uint64_t one = ExpertTable::group_pages(layer);
        const std::uint64_t routed =
            std::min<std::uint64_t>(layer.n_expert, static_cast<std::uint64_t>(n_ubatch) * n_expert_used);
        layer_pages = std::max(layer_pages, routed * one);
        group_pages = std::max(group_pages, one);
    }
    // Each lane may hold one slice in its hands and the rest of an evicted group on its stack.
    return layer_pages + lanes * 2 * group_pages;
}

std::uint64_t ExpertStore::floor_bytes(std::size_t lanes, std::uint32_t n_ubatch, std::uint32_t n_expert_used) const {
    return floor_pages(lanes, n_ubatch, n_expert_used) * os::page_size();
}

void ExpertStore::open_direct_io() {
    if (!want_direct_io_) {
        return;
    }
    direct_io_ = true;
    for (std::size_t i = 0; i < files_.size(); ++i) {
        const auto & tensors = table_.tensors();
        const auto   first =
            std::find_if(tensors.begin(), tensors.end(), [i](const auto & tensor) { return tensor->file == i; });
        if (first == tensors.end()) {
            continue;
        }
        const std::uint64_t page   = (*first)->offset / os::page_size() * os::page_size();
        const std::string   reason = files_[i].enable_direct_io(page);
        if (!reason.empty()) {
            direct_io_ = false;
            notes_.push_back("direct I/O is off for " + files_[i].path() + ": " + reason);
        }
    }
}

void ExpertStore::start(const StoreOptions & options) {
    options_                   = options;
    const std::uint64_t page   = os::page_size();
    const std::uint64_t floor  = floor_pages(options.lanes, options.n_ubatch, options.n_expert_used);
    const std::uint64_t budget = options.budget_bytes / page;
    if (budget < floor) {
        throw std::runtime_error("expert memory of " + std::to_string(budget * page) +
                                 " bytes cannot hold the experts of one layer, which takes " +
                                 std::to_string(floor * page));
    }
    const auto & movers = available_movers();
    std::string  name   = options.mover == "auto" ? movers.front().name : options.mover;
    const bool   known =
        std::any_of(movers.begin(), movers.end(), [&](const MoverChoice & choice) { return choice.name == name; });
    if (!known) {
        throw std::runtime_error("the mover '" + name + "' is not available here");
    }
    if (options.overlap && name == "inplace") {
        throw std::runtime_error("overlap needs a mover that compute can wait for; 'inplace' is none: " +
                                 movers.back().why_not_better);
    }
    if (options.mover == "auto" && !movers.front().why_not_better.empty()) {
        notes_.push_back("pages are made present by '" + name + "': " + movers.front().why_not_better);
    }
    open_direct_io();

    PageMover::Config config;
    config.lanes          = options.lanes;
    config.arena          = arena_;
    config.capacity_pages = budget;
    for (const auto & tensor : table_.tensors()) {
        config.max_run_pages = std::max(config.max_run_pages, ExpertTable::slice_pages(*tensor));
    }
    // Nothing may be present yet: a page that is would be taken for the expert's bytes.
    for (const MemoryRange & range : arena_) {
        os::discard(range.base, range.bytes);
    }
    mover_ = make_mover(name);
    if (std::string error = mover_->start(config); !error.empty()) {
        mover_.reset();
        throw std::runtime_error(error);
    }
    cache_ = std::make_unique<ExpertCache>(table_);

    for (std::size_t lane = 0; lane < options.lanes; ++lane) {
        threads_.emplace_back([this, lane] { run_lane(lane); });
    }
    threads_.emplace_back([this] { run_prefault(); });
    if (mover_->faults() != nullptr) {
        threads_.emplace_back([this] { run_guard(); });
    }
}

void ExpertStore::set_cold_drop(float fraction, bool in_prefill) {
    Lock lock(mutex_);
    drop_fraction_   = fraction;
    drop_in_prefill_ = in_prefill;
}

void ExpertStore::set_route_trace(bool enabled) {
    constexpr std::size_t kLeast = std::size_t{ 1 } << 16;

    Lock lock(mutex_);
    trace_.reset();
    if (enabled) {
        const std::size_t widest = std::size_t{ options_.n_ubatch } * options_.n_expert_used * table_.layers().size();
        trace_                   = std::make_unique<RouteTrace>(std::max(kLeast, widest));
    }
    traces_ = enabled;
}

std::pair<std::vector<RouteEntry>, std::uint64_t> ExpertStore::take_route_trace() {
    Lock lock(mutex_);
    if (!trace_) {
        return {};
    }
    return { trace_->take(), trace_->take_lost() };
}

void ExpertStore::stop() {
    {
        Lock lock(mutex_);
        stopping_ = true;
        halted_   = true;
    }
    work_.notify_all();
    done_.notify_all();
    freed_.notify_all();
    tick_.notify_all();
    for (std::thread & thread : threads_) {
        thread.join();
    }
    threads_.clear();
}

// ---- one decode ----------------------------------------------------------------------------------

void ExpertStore::begin_decode(bool prefill) {
    Lock lock(mutex_);
    flush(lock);
    // A read ahead may have failed since the last decode; then this one fails.
    halted_   = stopping_ || !error_.empty();
    decoding_ = true;
    prefill_  = prefill;
    ++counts_.decodes;
    if (sleepers_ > 0) {
        tick_.notify_all();
    }
}

void ExpertStore::cancel() {
    Lock lock(mutex_);
    halted_ = true;
    done_.notify_all();
}

void ExpertStore::fail(const std::string & message) {
    Lock lock(mutex_);
    fail_locked(message);
}

void ExpertStore::fail_locked(const std::string & message) {
    if (error_.empty()) {
        error_ = message;
    }
    // What was installed in place of the missing bytes must not outlive this decode.
    flush_  = true;
    halted_ = true;
    done_.notify_all();
}

std::string ExpertStore::end_decode() {
    Lock lock(mutex_);
    decoding_ = false;
    if (halted_) {
        drop_queues();
    }
    flush(lock);
    if (cache_) {
        cache_->unpin_all();
    }
    return std::exchange(error_, {});
}

// After an error: throws away everything, among it what was installed in place of missing bytes.
void ExpertStore::flush(Lock & lock) {
    if (!flush_) {
        return;
    }
    drop_queues();
    done_.wait(lock, [this] { return running_ == 0 || stopping_; });
    forget_all(lock);
    last_routed_.clear();
    flush_ = false;
}

void ExpertStore::drop_queues() {
    for (std::deque<SliceId> * queue : { &demand_queue_, &prefetch_queue_ }) {
        for (const SliceId id : *queue) {
            ExpertCache::Slice & slice = cache_->slice(id);
            if (slice.state == SliceState::queued) {
                demanded_ -= slice.demanded ? 1 : 0;
                cache_->unqueue(id);
            }
        }
        queue->clear();
    }
}

// Evicts everything that may be evicted.
void ExpertStore::forget_all(Lock & lock) {
    if (cache_) {
        cache_->unpin_all();
        while (evict_one(options_.lanes, false, lock)) {
        }
    }
}

void ExpertStore::wait_idle() {
    Lock lock(mutex_);
    done_.wait(lock, [this] {
        return stopping_ || (demand_queue_.empty() && prefetch_queue_.empty() && running_ == 0 && !prefaulting_);
    });
}

Counters ExpertStore::counters() const {
    Lock     lock(mutex_);
    Counters counts = counts_;
    if (cache_) {
        counts.evictions      = cache_->evictions();
        counts.resident_bytes = cache_->resident_pages() * os::page_size();
        counts.pool_bytes     = mover_->held_pages() * os::page_size();
    }
    return counts;
}

} // namespace moestream

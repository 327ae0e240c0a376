#include "store.hpp"

#include "os.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>

namespace moestream {

namespace {

using Clock = std::chrono::steady_clock;

std::uint64_t since(Clock::time_point start) {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count());
}

} // namespace

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
    halted_   = stopping_;
    decoding_ = true;
    prefill_  = prefill;
    error_.clear();
    ++counts_.decodes;
    tick_.notify_all();
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
    if (flush_) {
        done_.wait(lock, [this] { return running_ == 0 || stopping_; });
        forget_all(lock);
        last_routed_.clear();
        flush_ = false;
    }
    if (cache_) {
        cache_->unpin_all();
    }
    return error_;
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

void ExpertStore::route(int layer_index, Routing & routing) {
    const auto start = Clock::now();
    Lock       lock(mutex_);
    if (halted_) {
        return;
    }
    const Layer * layer = table_.layer(layer_index);
    if (layer == nullptr) {
        return;
    }
    counts_.routed += static_cast<std::uint64_t>(routing.n_used * routing.n_tokens);
    if (!options_.retain) {
        done_.wait(lock, [this] { return running_ == 0 || halted_; });
        forget_all(lock);
    }
    cache_->unpin_all();
    const bool drop    = drop_fraction_ > 0 && routing.weights != nullptr && (!prefill_ || drop_in_prefill_);
    const auto experts = drop ? drop_cold(*layer, routing) : wanted_experts(*layer, routing);
    if (!error_.empty()) {
        return;
    }
    demand(*layer, experts);
    if (options_.prefetch > 0) {
        if (routing.n_tokens == 1) {
            last_routed_[layer_index] = experts;
        }
        prefetch_after(*layer);
    }
    const std::size_t jobs = demand_queue_.size() + prefetch_queue_.size();
    if (jobs > 0) {
        // Waking a thread costs as much as a small read: no more than there is work for.
        for (std::size_t i = 0; i < std::min(jobs, options_.lanes); ++i) {
            work_.notify_one();
        }
    }
    if (!options_.overlap && demanded_ > 0) {
        const auto waiting = Clock::now();
        done_.wait(lock, [this] { return demanded_ == 0 || halted_; });
        counts_.wait_ns += since(waiting);
    }
    counts_.callback_ns += since(start);
}

namespace {

std::int32_t & id_at(const Routing & r, std::int64_t token, std::int64_t slot) {
    auto * row = reinterpret_cast<std::uint8_t *>(r.ids) + static_cast<std::size_t>(token) * r.ids_stride;
    return reinterpret_cast<std::int32_t *>(row)[slot];
}

float & weight_at(const Routing & r, std::int64_t token, std::int64_t slot) {
    auto * base = reinterpret_cast<std::uint8_t *>(r.weights);
    return *reinterpret_cast<float *>(base + static_cast<std::size_t>(token) * r.weights_token +
                                      static_cast<std::size_t>(slot) * r.weights_slot);
}

} // namespace

std::vector<std::uint32_t> ExpertStore::wanted_experts(const Layer & layer, const Routing & routing) {
    std::vector<std::uint32_t> & seen = scratch_;
    seen.assign(layer.n_expert, 0);
    for (std::int64_t token = 0; token < routing.n_tokens; ++token) {
        for (std::int64_t slot = 0; slot < routing.n_used; ++slot) {
            const std::int32_t id = id_at(routing, token, slot);
            if (id < 0 || static_cast<std::uint32_t>(id) >= layer.n_expert) {
                fail_locked("layer " + std::to_string(layer.index) + " routed to expert " + std::to_string(id) +
                            " of " + std::to_string(layer.n_expert));
                return {};
            }
            seen[static_cast<std::uint32_t>(id)] = 1;
        }
    }
    std::vector<std::uint32_t> experts;
    for (std::uint32_t expert = 0; expert < layer.n_expert; ++expert) {
        if (seen[expert] != 0) {
            experts.push_back(expert);
        }
    }
    return experts;
}

// Lossy. A routed expert that is not there is skipped if every token that routes to it weights it
// below the threshold: its weight becomes zero, the others of the token share what it had, and its
// id becomes that of the token's top expert, so that no byte of it is touched.
std::vector<std::uint32_t> ExpertStore::drop_cold(const Layer & layer, Routing & routing) {
    std::vector<std::uint32_t> experts = wanted_experts(layer, routing);
    if (!error_.empty()) {
        return {};
    }
    const float                threshold = drop_fraction_ / static_cast<float>(routing.n_used);
    std::vector<std::uint32_t> needed(layer.n_expert, 0);
    std::vector<std::int64_t>  top(static_cast<std::size_t>(routing.n_tokens), 0);
    std::vector<float>         sum(static_cast<std::size_t>(routing.n_tokens), 0);
    for (std::int64_t token = 0; token < routing.n_tokens; ++token) {
        const auto t = static_cast<std::size_t>(token);
        for (std::int64_t slot = 0; slot < routing.n_used; ++slot) {
            const float weight = weight_at(routing, token, slot);
            sum[t] += weight;
            if (weight > weight_at(routing, token, top[t])) {
                top[t] = slot;
            }
        }
        for (std::int64_t slot = 0; slot < routing.n_used; ++slot) {
            const auto id = static_cast<std::uint32_t>(id_at(routing, token, slot));
            // Written so that a weight that is no number counts as needed.
            const bool cold = weight_at(routing, token, slot) < threshold * sum[t] &&
                              !cache_->complete(layer.first_group + id) &&
                              cache_->group(layer.first_group + id).busy == 0;
            if (slot == top[t] || !cold) {
                needed[id] = 1;
            }
        }
    }
    for (std::int64_t token = 0; token < routing.n_tokens; ++token) {
        const auto t    = static_cast<std::size_t>(token);
        float      kept = 0;
        for (std::int64_t slot = 0; slot < routing.n_used; ++slot) {
            if (needed[static_cast<std::uint32_t>(id_at(routing, token, slot))] != 0) {
                kept += weight_at(routing, token, slot);
            }
        }
        if (kept == sum[t]) {
            continue;
        }
        const std::int32_t top_id = id_at(routing, token, top[t]);
        for (std::int64_t slot = 0; slot < routing.n_used; ++slot) {
            float & weight = weight_at(routing, token, slot);
            if (needed[static_cast<std::uint32_t>(id_at(routing, token, slot))] != 0) {
                weight *= sum[t] / kept;
            } else {
                weight                      = 0;
                id_at(routing, token, slot) = top_id;
                ++counts_.dropped;
            }
        }
    }
    experts.erase(std::remove_if(experts.begin(), experts.end(), [&](std::uint32_t e) { return needed[e] == 0; }),
                  experts.end());
    return experts;
}

void ExpertStore::demand(const Layer & layer, const std::vector<std::uint32_t> & experts) {
    for (const std::uint32_t expert : experts) {
        const std::uint32_t  index = layer.first_group + expert;
        ExpertCache::Group & group = cache_->group(index);
        std::size_t          there = 0; // slices present or being read
        for (std::uint32_t slot = 0; slot < layer.tensors.size(); ++slot) {
            const SliceState state = cache_->slice({ index, slot }).state;
            there += state == SliceState::present || state == SliceState::loading ? 1 : 0;
        }
        if (there == layer.tensors.size()) {
            ++counts_.hits;
            counts_.prefetch_used += group.ahead ? 1 : 0;
        } else {
            ++counts_.misses;
            counts_.rereads += group.was_loaded ? 1 : 0;
        }
        group.ahead = false;
        cache_->pin(index);
    }
    // In the order in which the graph will use them.
    for (std::uint32_t slot = 0; slot < layer.tensors.size(); ++slot) {
        for (const std::uint32_t expert : experts) {
            const SliceId        id{ layer.first_group + expert, slot };
            ExpertCache::Slice & slice = cache_->slice(id);
            if (slice.state == SliceState::present || slice.demanded) {
                continue;
            }
            if (slice.state == SliceState::absent) {
                cache_->queue(id);
            }
            if (slice.state == SliceState::queued) {
                slice.ahead = false; // its entry in the prefetch queue is void now
                demand_queue_.push_back(id);
            }
            slice.demanded = true;
            ++demanded_;
        }
    }
}

void ExpertStore::prefetch_after(const Layer & layer) {
    // What was queued for layers that have been routed by now is of no use any more.
    for (const SliceId id : prefetch_queue_) {
        const ExpertCache::Slice & slice = cache_->slice(id);
        if (slice.state == SliceState::queued && slice.ahead) {
            cache_->unqueue(id);
        }
    }
    prefetch_queue_.clear();
    const auto & layers = table_.layers();
    auto         next   = static_cast<std::size_t>(&layer - layers.data());
    for (int k = 0; k < options_.prefetch; ++k) {
        next             = (next + 1) % layers.size();
        const auto known = last_routed_.find(layers[next].index);
        if (known == last_routed_.end() || next == static_cast<std::size_t>(&layer - layers.data())) {
            continue;
        }
        for (const std::uint32_t expert : known->second) {
            const std::uint32_t index = layers[next].first_group + expert;
            bool                any   = false;
            for (std::uint32_t slot = 0; slot < layers[next].tensors.size(); ++slot) {
                const SliceId id{ index, slot };
                if (cache_->slice(id).state == SliceState::absent) {
                    cache_->queue(id);
                    cache_->slice(id).ahead = true;
                    prefetch_queue_.push_back(id);
                    any = true;
                }
            }
            if (any) {
                cache_->touch(index);
            }
        }
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

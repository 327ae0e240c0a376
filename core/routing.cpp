// What a layer's routing causes: hits, reads in the order of use, reads ahead, and, if asked for,
// routings that are dropped. Runs in the eval callback, between two pieces of the graph.
#include "store.hpp"

#include <algorithm>
#include <chrono>

namespace moestream {

namespace {

using Clock = std::chrono::steady_clock;

std::uint64_t since(Clock::time_point start) {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count());
}

} // namespace

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
    auto experts = wanted_experts(*layer, routing);
    if (!error_.empty()) {
        return;
    }
    if (trace_) {
        trace_->begin(*layer, routing, counts_.decodes);
    }
    if (drop_fraction_ > 0 && routing.weights != nullptr && (!prefill_ || drop_in_prefill_)) {
        drop_cold(*layer, routing, experts);
    }
    demand(*layer, experts);
    if (trace_) {
        trace_->end();
    }
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

void ExpertStore::weigh(int layer, const Routing & routing) {
    Lock lock(mutex_);
    if (trace_ && !halted_) {
        trace_->weigh(layer, routing);
    }
}

std::vector<std::uint32_t> ExpertStore::wanted_experts(const Layer & layer, const Routing & routing) {
    std::vector<std::uint32_t> & seen = scratch_;
    seen.assign(layer.n_expert, 0);
    for (std::int64_t token = 0; token < routing.n_tokens; ++token) {
        for (std::int64_t slot = 0; slot < routing.n_used; ++slot) {
            const std::int32_t id = routing.id(token, slot);
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
void ExpertStore::drop_cold(const Layer & layer, Routing & routing, std::vector<std::uint32_t> & experts) {
    const float                threshold = drop_fraction_ / static_cast<float>(routing.n_used);
    std::vector<std::uint32_t> needed(layer.n_expert, 0);
    std::vector<std::int64_t>  top(static_cast<std::size_t>(routing.n_tokens), 0);
    std::vector<float>         sum(static_cast<std::size_t>(routing.n_tokens), 0);
    for (std::int64_t token = 0; token < routing.n_tokens; ++token) {
        const auto t = static_cast<std::size_t>(token);
        for (std::int64_t slot = 0; slot < routing.n_used; ++slot) {
            const float weight = routing.weight(token, slot);
            sum[t] += weight;
            if (weight > routing.weight(token, top[t])) {
                top[t] = slot;
            }
        }
        for (std::int64_t slot = 0; slot < routing.n_used; ++slot) {
            const auto id = static_cast<std::uint32_t>(routing.id(token, slot));
            // Written so that a weight that is no number counts as needed.
            const bool cold = routing.weight(token, slot) < threshold * sum[t] &&
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
            if (needed[static_cast<std::uint32_t>(routing.id(token, slot))] != 0) {
                kept += routing.weight(token, slot);
            }
        }
        if (kept == sum[t]) {
            continue;
        }
        const std::int32_t top_id = routing.id(token, top[t]);
        for (std::int64_t slot = 0; slot < routing.n_used; ++slot) {
            float & weight = routing.weight(token, slot);
            if (needed[static_cast<std::uint32_t>(routing.id(token, slot))] != 0) {
                weight *= sum[t] / kept;
            } else {
                weight                  = 0;
                routing.id(token, slot) = top_id;
                ++counts_.dropped;
            }
        }
    }
    experts.erase(std::remove_if(experts.begin(), experts.end(), [&](std::uint32_t e) { return needed[e] == 0; }),
                  experts.end());
}

void ExpertStore::demand(const Layer & layer, const std::vector<std::uint32_t> & experts) {
    for (const std::uint32_t expert : experts) {
        const std::uint32_t  index     = layer.first_group + expert;
        ExpertCache::Group & group     = cache_->group(index);
        Residency            residency = group.ahead ? Residency::prefetched : Residency::hit;
        std::uint64_t        bytes     = 0; // to be read now
        for (std::uint32_t slot = 0; slot < layer.tensors.size(); ++slot) {
            const ExpertCache::Slice & slice = cache_->slice({ index, slot });
            if (slice.state == SliceState::loading && slice.ahead) {
                residency = Residency::prefetched; // used before it is there
            }
            if (slice.state == SliceState::absent || slice.state == SliceState::queued) {
                bytes += layer.tensors[slot]->stride;
            }
        }
        if (bytes > 0) {
            residency = Residency::miss;
            ++counts_.misses;
            counts_.rereads += group.was_loaded ? 1 : 0;
        } else {
            ++counts_.hits;
            counts_.prefetch_used += residency == Residency::prefetched ? 1 : 0;
        }
        if (trace_) {
            trace_->found(expert, residency, bytes);
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

} // namespace moestream

#include "route_trace.hpp"

#include <limits>
#include <utility>

namespace moestream {

void RouteTrace::begin(const Layer & layer, const Routing & routing, std::uint64_t decode) {
    first_ = entries_.size();
    outcomes_.assign(layer.n_expert, {});
    if (routing.size() > capacity_ - first_) {
        lost_ += routing.size();
        return;
    }
    for (std::int64_t token = 0; token < routing.n_tokens; ++token) {
        for (std::int64_t slot = 0; slot < routing.n_used; ++slot) {
            RouteEntry entry{};
            entry.decode = static_cast<std::uint32_t>(decode);
            entry.row    = static_cast<std::uint32_t>(token);
            entry.expert = static_cast<std::uint32_t>(routing.id(token, slot));
            entry.weight =
                routing.weights != nullptr ? routing.weight(token, slot) : std::numeric_limits<float>::quiet_NaN();
            entry.layer = static_cast<std::uint16_t>(layer.index);
            entry.slot  = static_cast<std::uint16_t>(slot);
            entries_.push_back(entry);
        }
    }
}

void RouteTrace::found(std::uint32_t expert, Residency residency, std::uint64_t bytes) {
    outcomes_[expert] = { bytes, residency, true };
}

void RouteTrace::end() {
    for (std::size_t i = first_; i < entries_.size(); ++i) {
        RouteEntry & entry   = entries_[i];
        Outcome &    outcome = outcomes_[entry.expert];
        entry.dropped        = outcome.used ? 0 : 1;
        entry.residency      = outcome.residency;
        entry.bytes          = outcome.bytes;
        if (outcome.used) {
            // Further rows of the batch share what the first one caused.
            outcome.residency = Residency::hit;
            outcome.bytes     = 0;
        }
    }
}

void RouteTrace::weigh(int layer, const Routing & routing) {
    if (first_ == entries_.size() || entries_[first_].layer != layer || entries_.size() - first_ != routing.size()) {
        return;
    }
    for (std::size_t i = first_; i < entries_.size(); ++i) {
        RouteEntry & entry = entries_[i];
        entry.weight       = routing.weight(entry.row, entry.slot);
    }
}

std::vector<RouteEntry> RouteTrace::take() {
    first_ = 0;
    return std::exchange(entries_, {});
}

std::uint64_t RouteTrace::take_lost() {
    return std::exchange(lost_, 0);
}

} // namespace moestream

// What the routers asked for, one entry per routed expert, until somebody takes it.
//
// Plain bookkeeping without threads: the caller holds one lock around every call.
#pragma once

#include "expert_table.hpp"
#include "routing.hpp"

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace moestream {

enum class Residency : std::uint8_t { miss, hit, prefetched };

// _core.pyi has the same layout for readers in Python.
struct RouteEntry {
    std::uint64_t bytes; // of the expert's slices that must be read for it
    std::uint32_t decode;
    std::uint32_t row; // of those that the layer evaluates
    std::uint32_t expert;
    float         weight; // no number if it was not seen
    std::uint16_t layer;
    std::uint16_t slot;
    Residency     residency;
    std::uint8_t  dropped;
    std::uint16_t unused;
};

static_assert(sizeof(RouteEntry) == 32 && std::is_trivially_copyable_v<RouteEntry>);

class RouteTrace {
  public:
    // Entries beyond `capacity` are counted and not kept.
    explicit RouteTrace(std::size_t capacity) : capacity_(capacity) {}

    // For each routed layer: begin() with the routing as the router wrote it, found() for each
    // expert that will be used, end(). An expert that was not found was dropped.
    void begin(const Layer & layer, const Routing & routing, std::uint64_t decode);
    void found(std::uint32_t expert, Residency residency, std::uint64_t bytes);
    void end();
    // Weights that became known only after end().
    void weigh(int layer, const Routing & routing);

    std::vector<RouteEntry> take();
    std::uint64_t           take_lost();

  private:
    struct Outcome {
        std::uint64_t bytes     = 0;
        Residency     residency = Residency::miss;
        bool          used      = false;
    };

    std::size_t             capacity_;
    std::vector<RouteEntry> entries_;
    std::size_t             first_ = 0; // entry of the layer routed last
    std::vector<Outcome>    outcomes_;  // its experts'
    std::uint64_t           lost_ = 0;
};

} // namespace moestream

// What is resident, what is on its way, and what goes first when room is needed.
//
// Plain bookkeeping: no threads, no system calls, no llama.cpp. The caller holds one lock around
// every call. Least recently used groups go first; groups routed by the running layer (pinned) and
// groups with reads under way never.
#pragma once

#include "expert_table.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace moestream {

enum class SliceState : std::uint8_t { absent, queued, loading, present };

struct SliceId {
    std::uint32_t group = 0;
    std::uint32_t slot  = 0; // index into Layer::tensors
};

class ExpertCache {
  public:
    explicit ExpertCache(ExpertTable & table);

    struct Slice {
        SliceState state    = SliceState::absent;
        bool       demanded = false; // the running layer needs it
        bool       ahead    = false; // queued by prefetch
    };

    struct Group {
        std::uint32_t newer      = 0;
        std::uint32_t older      = 0;
        std::uint64_t pin        = 0;
        std::uint8_t  busy       = 0; // slices queued or loading
        std::uint8_t  present    = 0; // slices present
        bool          linked     = false;
        bool          was_loaded = false;
        bool          ahead      = false; // read by prefetch and not used since
    };

    Slice &             slice(SliceId id) { return slices_[id.group * max_slices_ + id.slot]; }
    Group &             group(std::uint32_t index) { return groups_[index]; }
    ExpertTensor &      tensor(SliceId id) const { return *table_.layer_of_group(id.group).tensors[id.slot]; }
    std::size_t         slots(std::uint32_t group) const { return table_.layer_of_group(group).tensors.size(); }
    const ExpertTable & table() const { return table_; }

    // A new layer is routed: everything pinned so far may go.
    void unpin_all() { ++tick_; }
    // Makes the group the most recently used and keeps it until the next unpin_all.
    void pin(std::uint32_t group);
    // Makes the group the most recently used.
    void touch(std::uint32_t group);
    bool complete(std::uint32_t group) const;

    void queue(SliceId id);
    // A queued slice that nobody will read after all.
    void unqueue(SliceId id);
    // A queued slice is about to be read: the pages that are not there yet (possibly none).
    PageRun begin_load(SliceId id);
    // Gives up a load that begin_load announced. The caller must make the returned pages go away.
    std::vector<PageRun> abandon_load(SliceId id);
    // The run is there. Returns how many of its pages somebody else had brought in the meantime.
    std::size_t finish_load(SliceId id, const PageRun & run);

    // Takes the least recently used group out. The caller must make its pages go away.
    // `spare_ahead`: do not take groups that prefetch has read and nobody used yet.
    std::optional<std::vector<PageRun>> pop_victim(bool spare_ahead);

    std::size_t   resident_pages() const { return resident_pages_; }
    std::uint64_t evictions() const { return evictions_; }

  private:
    struct Span {
        std::uint8_t * begin;
        std::uint8_t * end;
    };
    Span    pages_of(SliceId id) const;
    void    link_newest(std::uint32_t group);
    void    unlink(std::uint32_t group);
    PageRun release(SliceId id);

    ExpertTable &      table_;
    std::size_t        max_slices_;
    std::vector<Group> groups_; // one more than there are: the last is the list's anchor
    std::vector<Slice> slices_;
    std::uint32_t      anchor_;
    std::uint64_t      tick_           = 1;
    std::size_t        resident_pages_ = 0;
    std::uint64_t      evictions_      = 0;
};

} // namespace moestream

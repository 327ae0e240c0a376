// Brings the experts that a layer routed into memory, and keeps them within a budget.
//
// Threads: whoever decodes calls route() from the eval callback; lanes read; one thread allocates
// memory ahead; the guard looks after page faults nobody announced. One mutex protects the
// bookkeeping and is never held during a system call that can block.
#pragma once

#include "cache.hpp"
#include "expert_table.hpp"
#include "mover.hpp"
#include "route_trace.hpp"
#include "routing.hpp"
#include "shard_file.hpp"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace moestream {

struct Counters {
    std::uint64_t hits           = 0;
    std::uint64_t misses         = 0;
    std::uint64_t dropped        = 0;
    std::uint64_t routed         = 0;
    std::uint64_t evictions      = 0;
    std::uint64_t rereads        = 0;
    std::uint64_t prefetched     = 0;
    std::uint64_t prefetch_used  = 0;
    std::uint64_t read_bytes     = 0;
    std::uint64_t reads          = 0;
    std::uint64_t read_ns        = 0;
    std::uint64_t install_ns     = 0;
    std::uint64_t wait_ns        = 0;
    std::uint64_t callback_ns    = 0;
    std::uint64_t guard_loads    = 0;
    std::uint64_t resident_bytes = 0;
    std::uint64_t pool_bytes     = 0;
    std::uint64_t decodes        = 0;
};

struct StoreOptions {
    std::uint64_t budget_bytes  = 0;
    bool          retain        = true;
    std::size_t   lanes         = 1;
    bool          overlap       = false;
    std::string   mover         = "auto";
    int           prefetch      = 0; // layers ahead
    std::uint32_t n_ubatch      = 1;
    std::uint32_t n_expert_used = 1;
};

class ExpertStore {
  public:
    ExpertStore(std::vector<std::string> files, bool o_direct);
    ~ExpertStore();
    ExpertStore(const ExpertStore &)             = delete;
    ExpertStore & operator=(const ExpertStore &) = delete;

    ExpertTable & table() { return table_; }
    // Memory that tensors of the table were placed in. Must not be touched before start().
    void add_arena(MemoryRange range) { arena_.push_back(range); }

    std::uint64_t floor_bytes(std::size_t lanes, std::uint32_t n_ubatch, std::uint32_t n_expert_used) const;
    // Throws std::runtime_error with what is wrong.
    void start(const StoreOptions & options);
    void set_cold_drop(float fraction, bool in_prefill);
    // Call after start(): the trace holds at least the widest decode.
    void set_route_trace(bool enabled);
    void stop();

    // Called by whoever runs the graph.
    void begin_decode(bool prefill);
    // False: a decode must not go on (cancelled, or an error is pending).
    bool        may_go_on() const { return !halted_.load(std::memory_order_relaxed); }
    void        route(int layer, Routing & routing);
    void        weigh(int layer, const Routing & routing); // late weights of it, for the trace
    void        fail(const std::string & message);
    std::string end_decode();
    void        cancel();

    bool        overlap() const { return options_.overlap; }
    bool        drops() const { return drop_fraction_ > 0; }
    bool        traces() const { return traces_.load(std::memory_order_relaxed); }
    Counters    counters() const;
    std::string mover_name() const { return mover_ ? mover_->name() : ""; }
    bool        direct_io() const { return direct_io_; }
    // Entries since the last call, and how many there was no room for.
    std::pair<std::vector<RouteEntry>, std::uint64_t> take_route_trace();

    void        wait_idle();
    std::size_t present_pages() const;
    void        inject_read_error(std::int64_t after_reads) { read_error_in_ = after_reads; }

    const std::vector<std::string> & notes() const { return notes_; }

  private:
    using Lock = std::unique_lock<std::mutex>;

    void          open_direct_io();
    std::uint64_t floor_pages(std::size_t lanes, std::uint32_t n_ubatch, std::uint32_t n_expert_used) const;

    // Routing, under the lock.
    std::vector<std::uint32_t> wanted_experts(const Layer & layer, const Routing & routing);
    void                       drop_cold(const Layer & layer, Routing & routing, std::vector<std::uint32_t> & experts);
    void                       demand(const Layer & layer, const std::vector<std::uint32_t> & experts);
    void                       prefetch_after(const Layer & layer);
    void                       forget_all(Lock & lock);
    void                       flush(Lock & lock);
    void                       drop_queues();

    // Lanes.
    void           run_lane(std::size_t lane);
    bool           next_job(SliceId & id, bool & ahead);
    void           load(std::size_t lane, SliceId id, bool ahead, Lock & lock);
    std::uint8_t * make_room(std::size_t lane, SliceId id, const PageRun & run, Lock & lock);
    bool           evict_one(std::size_t lane, bool spare_ahead, Lock & lock);
    void           evict(std::size_t lane, const std::vector<PageRun> & runs, Lock & lock);
    std::string    read(const PageRun & run, std::uint8_t * to);
    void           fail_locked(const std::string & message);

    bool wait_for_decode(Lock & lock);
    void run_prefault();
    void run_guard();
    void serve_fault(std::uint8_t * page);

    std::vector<ShardFile>   files_;
    bool                     want_direct_io_;
    bool                     direct_io_ = false;
    std::vector<std::string> notes_;
    ExpertTable              table_;
    std::vector<MemoryRange> arena_;

    StoreOptions                 options_;
    std::unique_ptr<PageMover>   mover_;
    std::unique_ptr<ExpertCache> cache_;

    mutable std::mutex       mutex_;
    std::condition_variable  work_;  // for lanes: a job is there
    std::condition_variable  done_;  // for the decode: a demanded slice arrived
    std::condition_variable  freed_; // for lanes: something may be evicted now
    std::condition_variable  tick_;  // for the prefault and guard threads: stop
    std::deque<SliceId>      demand_queue_;
    std::deque<SliceId>      prefetch_queue_;
    std::size_t              demanded_ = 0; // slices the running layer waits for
    std::size_t              running_  = 0; // lanes at work
    std::size_t              sleepers_ = 0; // background threads that wait for a decode to begin
    std::vector<std::thread> threads_;
    bool                     stopping_    = false;
    bool                     prefaulting_ = false;
    bool                     decoding_    = false;
    bool                     prefill_     = false;
    bool                     flush_       = false;
    std::string              error_;
    std::atomic<bool>        halted_{ false };

    float drop_fraction_   = 0;
    bool  drop_in_prefill_ = false;
    // Per layer index: what the latest single-token decode routed there.
    std::unordered_map<int, std::vector<std::uint32_t>> last_routed_;
    std::vector<std::uint32_t>                          scratch_;

    std::unique_ptr<RouteTrace> trace_; // under the lock
    std::atomic<bool>           traces_{ false };

    Counters                  counts_; // under the lock
    std::atomic<std::int64_t> read_error_in_{ -1 };
};

} // namespace moestream

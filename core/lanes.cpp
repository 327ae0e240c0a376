// The threads of an ExpertStore: read lanes, allocation ahead of demand, and the guard.
#include "os.hpp"
#include "store.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

#ifdef __linux__
#    include <fcntl.h>
#    include <unistd.h>
#endif

namespace moestream {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

std::uint64_t nanoseconds(Clock::duration duration) {
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count());
}

} // namespace

void ExpertStore::run_lane(std::size_t lane) {
    Lock lock(mutex_);
    for (;;) {
        SliceId id;
        bool    ahead = false;
        work_.wait(lock, [&] { return stopping_ || next_job(id, ahead); });
        if (stopping_) {
            return;
        }
        ++running_;
        load(lane, id, ahead, lock);
        --running_;
        if (running_ == 0) {
            done_.notify_all();
        }
    }
}

bool ExpertStore::next_job(SliceId & id, bool & ahead) {
    for (std::deque<SliceId> * queue : { &demand_queue_, &prefetch_queue_ }) {
        ahead = queue == &prefetch_queue_;
        while (!queue->empty()) {
            id = queue->front();
            queue->pop_front();
            const ExpertCache::Slice & slice = cache_->slice(id);
            if (slice.state == SliceState::queued && slice.ahead == ahead) {
                return true;
            }
        }
    }
    return false;
}

void ExpertStore::load(std::size_t lane, SliceId id, bool ahead, Lock & lock) {
    const PageRun run = cache_->begin_load(id);
    if (run.pages > 0) {
        std::uint8_t * memory = make_room(lane, id, run, lock);
        if (memory == nullptr) {
            demanded_ -= cache_->slice(id).demanded ? 1 : 0;
            evict(lane, cache_->abandon_load(id), lock);
            return;
        }
        lock.unlock();
        const auto  started = Clock::now();
        std::string error;
        {
            // A neighbour that shares a page may just be leaving; memory read in place must not be
            // taken away by that.
            std::lock_guard<std::mutex> moving(run.tensor->moving);
            error = mover_->prepare(run) ? "" : "no memory for the experts of one layer";
        }
        if (error.empty()) {
            error = read(run, memory);
        }
        const auto was_read = Clock::now();
        if (!error.empty()) {
            // First the news, then the pages: compute that sleeps on them must wake up, but nobody
            // may take what is in them for the expert's bytes.
            fail(error);
            if (mover_->faults() != nullptr) {
                std::memset(memory, 0, run.bytes());
            }
        }
        {
            std::lock_guard<std::mutex> moving(run.tensor->moving);
            error = mover_->install(lane, run, memory);
        }
        const auto in_place = Clock::now();
        lock.lock();
        counts_.reads += 1;
        counts_.read_bytes += run.bytes();
        counts_.read_ns += nanoseconds(was_read - started);
        counts_.install_ns += nanoseconds(in_place - was_read);
        if (!error.empty()) {
            fail_locked(error);
        }
    }
    if (ahead) {
        // Promoted to demand while it was read: then the layer is already waiting for it.
        cache_->group(id.group).ahead = !cache_->slice(id).demanded;
        counts_.prefetched += id.slot == 0 ? 1 : 0;
    }
    const bool demanded = cache_->slice(id).demanded;
    mover_->discount(cache_->finish_load(id, run));
    freed_.notify_all();
    if (demanded && --demanded_ == 0) {
        done_.notify_all();
    }
}

// The lock is held on entry and on return, not always in between.
std::uint8_t * ExpertStore::make_room(std::size_t lane, SliceId id, const PageRun & run, Lock & lock) {
    const auto started = Clock::now();
    for (;;) {
        if (std::uint8_t * memory = mover_->take(lane, run)) {
            return memory;
        }
        // A slice read ahead may have become a demanded one in the meantime.
        const bool ahead = cache_->slice(id).ahead && !cache_->slice(id).demanded;
        if (evict_one(lane, ahead, lock)) {
            continue;
        }
        if (ahead || stopping_) {
            return nullptr;
        }
        if (Clock::now() - started > std::chrono::seconds(30)) {
            fail_locked("no memory became free for an expert within 30 seconds");
            return nullptr;
        }
        freed_.wait_for(lock, milliseconds(1));
    }
}

bool ExpertStore::evict_one(std::size_t lane, bool spare_ahead, Lock & lock) {
    const auto victim = cache_->pop_victim(spare_ahead);
    if (victim) {
        evict(lane, *victim, lock);
    }
    return victim.has_value();
}

void ExpertStore::evict(std::size_t lane, const std::vector<PageRun> & runs, Lock & lock) {
    // Taken before the bookkeeping is unlocked: whoever wants the slice again, or shares a page with
    // it, may read it meanwhile, but installs it only after the old pages have gone.
    std::vector<std::unique_lock<std::mutex>> moving;
    const ExpertTensor *                      locked = nullptr;
    for (const PageRun & run : runs) {
        if (run.tensor != locked) {
            moving.emplace_back(run.tensor->moving);
            locked = run.tensor;
        }
    }
    lock.unlock();
    const auto  started = Clock::now();
    std::string error;
    for (const PageRun & run : runs) {
        const std::string failed = mover_->evict(lane, run);
        error                    = error.empty() ? failed : error;
    }
    moving.clear();
    const auto ended = Clock::now();
    lock.lock();
    counts_.install_ns += nanoseconds(ended - started);
    if (!error.empty()) {
        fail_locked(error);
    }
}

std::string ExpertStore::read(const PageRun & run, std::uint8_t * to) {
    if (read_error_in_.load(std::memory_order_relaxed) >= 0 && read_error_in_.fetch_sub(1) == 0) {
        return "cannot read " + files_[run.tensor->file].path() + " at byte " + std::to_string(run.file_offset()) +
               ": injected error";
    }
    return files_[run.tensor->file].read(run.file_offset(), to, run.bytes());
}

// Sleeps while nobody decodes; false if it is time to go.
bool ExpertStore::wait_for_decode(Lock & lock) {
    ++sleepers_;
    tick_.wait(lock, [this] { return stopping_ || decoding_; });
    --sleepers_;
    return !stopping_;
}

// Memory is allocated in the background and at the lowest priority: in the way of a token it would
// cost many times what reading into it does.
void ExpertStore::run_prefault() {
    os::lower_thread_priority();
    Lock lock(mutex_);
    while (!stopping_) {
        prefaulting_ = true;
        lock.unlock();
        const bool more = mover_->prefault();
        lock.lock();
        prefaulting_ = false;
        if (!more) {
            done_.notify_all();
            tick_.wait_for(lock, milliseconds(20), [this] { return stopping_; });
            wait_for_decode(lock);
        }
    }
}

// Every slice that compute touches has been routed, and so queued, before. Should that ever fail,
// compute would sleep for ever on a page that nobody brings.
void ExpertStore::run_guard() {
    Lock lock(mutex_);
    while (!stopping_) {
        if (!wait_for_decode(lock) || tick_.wait_for(lock, milliseconds(20), [this] { return stopping_; })) {
            return;
        }
        // Under the lock (it does not block): so whoever faulted there is still waiting.
        for (std::uint8_t * page : mover_->faults()->pending_faults()) {
            serve_fault(page);
        }
    }
}

void ExpertStore::serve_fault(std::uint8_t * page) {
    const auto release_compute = [&] {
        std::size_t                     skipped = 0;
        const std::vector<std::uint8_t> zeros(os::page_size());
        mover_->faults()->copy(page, zeros.data(), os::page_size(), skipped);
    };
    ExpertTensor * tensor = table_.tensor_at(page);
    if (tensor == nullptr) {
        fail_locked("compute touched memory for experts that belongs to none");
        release_compute();
        return;
    }
    const Layer *     layer = table_.layer(tensor->layer);
    const std::size_t size  = os::page_size();
    const auto     slot  = static_cast<std::uint32_t>(std::find(layer->tensors.begin(), layer->tensors.end(), tensor) -
                                                      layer->tensors.begin());
    std::uint8_t * from  = std::max(page, tensor->data);
    const auto     first = static_cast<std::uint32_t>(static_cast<std::uint64_t>(from - tensor->data) / tensor->stride);
    bool           on_its_way = false;
    std::vector<SliceId> absent;
    for (std::uint32_t expert = first; expert < layer->n_expert; ++expert) {
        if (tensor->data + expert * tensor->stride >= page + size) {
            break;
        }
        const SliceId    id{ layer->first_group + expert, slot };
        const SliceState state = cache_->slice(id).state;
        on_its_way |= state == SliceState::queued || state == SliceState::loading;
        if (state == SliceState::absent) {
            absent.push_back(id);
        }
    }
    if (on_its_way) {
        return;
    }
    if (absent.empty()) {
        if (error_.empty()) {
            mover_->faults()->wake(page); // it has arrived in the meantime
        } else {
            release_compute(); // it could not be installed, and this decode has failed anyway
        }
        return;
    }
    for (const SliceId id : absent) {
        ++counts_.guard_loads;
        cache_->touch(id.group);
        cache_->queue(id);
        demand_queue_.push_back(id);
    }
    work_.notify_all();
}

std::size_t ExpertStore::present_pages() const {
    std::size_t present = 0;
#ifdef __linux__
    const int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    std::vector<std::uint64_t> entries(std::size_t{ 1 } << 16);
    const std::size_t          page = os::page_size();
    for (const MemoryRange & range : arena_) {
        std::size_t       index = reinterpret_cast<std::uintptr_t>(range.base) / page;
        const std::size_t end   = index + range.bytes / page;
        while (index < end) {
            const std::size_t count = std::min(entries.size(), end - index);
            const ssize_t     got =
                pread(fd, entries.data(), count * sizeof entries[0], static_cast<off_t>(index * sizeof entries[0]));
            if (got <= 0) {
                break;
            }
            for (std::size_t i = 0; i < static_cast<std::size_t>(got) / sizeof entries[0]; ++i) {
                present += entries[i] >> 63;
            }
            index += static_cast<std::size_t>(got) / sizeof entries[0];
        }
    }
    close(fd);
#endif
    return present;
}

} // namespace moestream

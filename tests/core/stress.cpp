// Drives an ExpertStore the way a decode does, from several threads at once, and checks every byte.
// Meant for ThreadSanitizer and AddressSanitizer; needs neither llama.cpp nor a model.
//
//   stress SECONDS [SEED]
#include "expert_table.hpp"
#include "mover.hpp"
#include "os.hpp"
#include "store.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

using moestream::ExpertStore;

namespace {

constexpr std::uint32_t kExperts = 24;
constexpr int           kLayers  = 5;
constexpr std::uint32_t kUsed    = 4;

struct Case {
    const char *  mover;
    bool          overlap;
    bool          retain;
    std::size_t   lanes;
    int           prefetch;
    std::uint64_t stride;
    std::uint64_t extra_budget;
    bool          trace;
};

struct TensorSpec {
    std::string   name;
    int           layer;
    int           order;
    std::uint64_t offset;
    std::uint64_t stride;
};

[[noreturn]] void give_up(const Case & c, const std::string & why) {
    std::fprintf(stderr, "FAILED mover=%s overlap=%d retain=%d lanes=%zu prefetch=%d stride=%llu trace=%d: %s\n",
                 c.mover, c.overlap, c.retain, c.lanes, c.prefetch, static_cast<unsigned long long>(c.stride), c.trace,
                 why.c_str());
    std::exit(1);
}

class Run {
  public:
    Run(const Case & c, const std::string & path, unsigned seed) : case_(c), random_(seed), path_(path) {
        std::uint64_t offset = c.stride % moestream::os::page_size() == 0 ? moestream::os::page_size() : 123;
        for (int layer = 0; layer < kLayers; ++layer) {
            for (int order = 0; order < 3; ++order) {
                tensors_.push_back(
                    { "t" + std::to_string(layer) + "." + std::to_string(order), layer, order, offset, c.stride });
                offset += c.stride * kExperts;
            }
        }
        bytes_.resize(offset + 777);
        for (auto & byte : bytes_) {
            byte = static_cast<std::uint8_t>(random_());
        }
        std::ofstream(path, std::ios::binary)
            .write(reinterpret_cast<const char *>(bytes_.data()), static_cast<std::streamsize>(bytes_.size()));
    }

    void go(std::chrono::milliseconds duration) {
        const std::size_t page = moestream::os::page_size();
        ExpertStore       store({ path_ }, true);
        std::size_t       arena_bytes = page;
        for (const TensorSpec & t : tensors_) {
            store.table().add(t.name, t.layer, t.order, 0, t.offset, kExperts, t.stride);
            arena_bytes += t.stride * kExperts + 3 * page;
        }
        arena_bytes          = (arena_bytes + page - 1) / page * page;
        std::uint8_t * arena = moestream::os::reserve(arena_bytes);
        std::uint8_t * next  = arena;
        for (const auto & tensor : store.table().tensors()) {
            tensor->data = next + tensor->offset % page;
            next += (tensor->offset % page + tensor->bytes() + page - 1) / page * page;
        }
        store.table().seal();
        store.add_arena({ arena, arena_bytes });
        moestream::StoreOptions options;
        options.lanes         = case_.lanes;
        options.overlap       = case_.overlap;
        options.retain        = case_.retain;
        options.prefetch      = case_.prefetch;
        options.mover         = case_.mover;
        options.n_expert_used = kUsed;
        options.n_ubatch      = 2;
        options.budget_bytes  = store.floor_bytes(case_.lanes, 2, kUsed) + case_.extra_budget;
        store.start(options);
        store.set_route_trace(case_.trace);

        std::atomic<bool> stop{ false };
        // Somebody who cancels, looks at counters, breaks the disk and takes the trace while a decode runs.
        std::thread nuisance([&] {
            std::minstd_rand random(7);
            while (!stop) {
                std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
                const auto counts = store.counters();
                if (counts.pool_bytes > options.budget_bytes) {
                    give_up(case_, "held more memory than the budget");
                }
                const auto dice = random() % 20;
                if (dice == 0) {
                    store.cancel();
                } else if (dice == 1) {
                    store.inject_read_error(static_cast<std::int64_t>(random() % 5));
                } else if (dice == 2) {
                    take_trace(store);
                }
            }
        });
        const auto  end = std::chrono::steady_clock::now() + duration;
        while (std::chrono::steady_clock::now() < end) {
            decode(store);
        }
        stop = true;
        nuisance.join();
        take_trace(store);
        if (case_.trace && traced_misses_ != store.counters().misses) {
            give_up(case_, "the trace has other misses than the counters");
        }
        if (case_.overlap) {
            // Leave with reads under way.
            store.inject_read_error(-1);
            store.begin_decode(false);
            route(store, 0);
        }
        store.stop();
        moestream::os::release(arena, arena_bytes);
        std::printf("%-8s overlap=%d retain=%d lanes=%zu prefetch=%d stride=%-6llu %6llu decodes, %llu stopped early\n",
                    case_.mover, case_.overlap, case_.retain, case_.lanes, case_.prefetch,
                    static_cast<unsigned long long>(case_.stride), static_cast<unsigned long long>(decodes_),
                    static_cast<unsigned long long>(halted_));
    }

  private:
    std::vector<std::int32_t> route(ExpertStore & store, int layer) {
        std::vector<std::int32_t> ids;
        const bool                two_tokens = random_() % 4 == 0;
        for (std::uint32_t i = 0; i < (two_tokens ? 2 : 1) * kUsed; ++i) {
            ids.push_back(static_cast<std::int32_t>(std::min(random_() % kExperts, random_() % kExperts)));
        }
        moestream::Routing routing;
        routing.ids        = ids.data();
        routing.n_used     = kUsed;
        routing.n_tokens   = static_cast<std::int64_t>(ids.size()) / kUsed;
        routing.ids_stride = kUsed * sizeof(std::int32_t);
        store.route(layer, routing);
        std::vector<float> weights(ids.size(), 0.25f);
        routing.weights       = weights.data();
        routing.weights_slot  = sizeof(float);
        routing.weights_token = kUsed * sizeof(float);
        store.weigh(layer, routing);
        return ids;
    }

    void take_trace(ExpertStore & store) {
        const auto [entries, lost] = store.take_route_trace();
        if (lost > 0) {
            give_up(case_, "the trace has lost entries");
        }
        for (const moestream::RouteEntry & entry : entries) {
            const bool miss = entry.residency == moestream::Residency::miss;
            if (miss != (entry.bytes > 0) || entry.dropped != 0 || entry.expert >= kExperts) {
                give_up(case_, "a trace entry contradicts itself");
            }
            traced_misses_ += miss ? 1 : 0;
        }
    }

    void decode(ExpertStore & store) {
        store.begin_decode(false);
        ++decodes_;
        for (int layer = 0; layer < kLayers && store.may_go_on(); ++layer) {
            const auto ids = route(store, layer);
            if (!case_.overlap && !store.may_go_on()) {
                break;
            }
            compute(store, layer, ids);
        }
        halted_ += store.may_go_on() ? 0 : 1;
        store.end_decode();
        if (random_() % 8 == 0) {
            take_trace(store);
        }
    }

    // Two threads read what was routed, as two compute threads would.
    void compute(ExpertStore & store, int layer, const std::vector<std::int32_t> & ids) {
        const auto work = [&](std::size_t first) {
            for (const TensorSpec & spec : tensors_) {
                if (spec.layer != layer) {
                    continue;
                }
                const auto * tensor = store.table().find(spec.name);
                for (std::size_t i = first; i < ids.size(); i += 2) {
                    if (!store.may_go_on()) {
                        return; // what comes now need not be right
                    }
                    const std::uint64_t at = static_cast<std::uint64_t>(ids[i]) * spec.stride;
                    if (std::memcmp(tensor->data + at, bytes_.data() + spec.offset + at, spec.stride) != 0 &&
                        store.may_go_on()) {
                        give_up(case_, "wrong bytes in " + spec.name);
                    }
                }
            }
        };
        std::thread other(work, 1);
        work(0);
        other.join();
    }

    Case                      case_;
    std::minstd_rand          random_;
    std::string               path_;
    std::vector<TensorSpec>   tensors_;
    std::vector<std::uint8_t> bytes_;
    std::uint64_t             decodes_ = 0;
    std::uint64_t             halted_  = 0;

    std::atomic<std::uint64_t> traced_misses_{ 0 };
};

} // namespace

int main(int argc, char ** argv) {
    const double   seconds = argc > 1 ? std::atof(argv[1]) : 10;
    const unsigned seed    = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 1;

    std::vector<Case> cases;
    for (const auto & mover : moestream::available_movers()) {
        const bool in_place = mover.name == "inplace";
        for (const bool overlap : { false, true }) {
            if (overlap && in_place) {
                continue;
            }
            // Two lanes that read in place may both write a page their slices share, with the same
            // bytes; a sanitizer cannot know that. One lane, or pages of their own.
            cases.push_back({ mover.name.c_str(), overlap, true, in_place ? 1u : 3u, 2, 5000, 200000, true });
            cases.push_back({ mover.name.c_str(), overlap, true, 2, 0, 16384, 0, true });
            cases.push_back({ mover.name.c_str(), overlap, false, in_place ? 1u : 2u, 0, 3000, 0, true });
            cases.push_back({ mover.name.c_str(), overlap, true, in_place ? 1u : 4u, 3, 70000, 3000000, false });
        }
    }
    const auto each = std::chrono::milliseconds(static_cast<long>(seconds * 1000 / static_cast<double>(cases.size())));
    const char *      directory = std::getenv("TMPDIR");
    const std::string path      = std::string(directory != nullptr ? directory : "/tmp") + "/moestream-stress-" +
                             std::to_string(std::random_device{}()) + ".bin";
    for (const Case & c : cases) {
        Run(c, path, seed).go(each);
    }
    std::remove(path.c_str());
    std::printf("stress: %zu cases passed\n", cases.size());
    return 0;
}

#include "cache.hpp"

#include "os.hpp"

namespace moestream {

ExpertCache::ExpertCache(ExpertTable & table) :
    table_(table),
    max_slices_(table.max_slices()),
    groups_(table.n_groups() + 1),
    slices_(table.n_groups() * table.max_slices()),
    anchor_(table.n_groups()) {
    groups_[anchor_].newer = groups_[anchor_].older = anchor_;
}

// The list is a ring through the anchor: anchor.older is the most recently used group, anchor.newer
// the least recently used one.
void ExpertCache::link_newest(std::uint32_t index) {
    Group & g              = groups_[index];
    Group & anchor         = groups_[anchor_];
    g.newer                = anchor_;
    g.older                = anchor.older;
    groups_[g.older].newer = index;
    anchor.older           = index;
    g.linked               = true;
}

void ExpertCache::unlink(std::uint32_t index) {
    Group & g              = groups_[index];
    groups_[g.newer].older = g.older;
    groups_[g.older].newer = g.newer;
    g.linked               = false;
}

void ExpertCache::touch(std::uint32_t index) {
    if (groups_[index].linked) {
        unlink(index);
    }
    link_newest(index);
}

void ExpertCache::pin(std::uint32_t index) {
    groups_[index].pin = tick_;
    touch(index);
}

bool ExpertCache::complete(std::uint32_t index) const {
    return groups_[index].present == slots(index);
}

void ExpertCache::queue(SliceId id) {
    slice(id).state = SliceState::queued;
    ++groups_[id.group].busy;
}

void ExpertCache::unqueue(SliceId id) {
    slice(id) = Slice{};
    Group & g = groups_[id.group];
    --g.busy;
    if (g.busy == 0 && g.present == 0 && g.linked) {
        unlink(id.group);
    }
}

ExpertCache::Span ExpertCache::pages_of(SliceId id) const {
    const ExpertTensor & t      = tensor(id);
    const std::uint32_t  expert = id.group - table_.layer_of_group(id.group).first_group;
    const std::size_t    page   = os::page_size();
    std::uint8_t *       first  = t.data + expert * t.stride;
    const auto           down   = [page](std::uintptr_t a) { return a / page * page; };
    return { reinterpret_cast<std::uint8_t *>(down(reinterpret_cast<std::uintptr_t>(first))),
             reinterpret_cast<std::uint8_t *>(down(reinterpret_cast<std::uintptr_t>(first + t.stride) + page - 1)) };
}

namespace {

// The slice's first and last page: the only ones it can share with neighbours.
template <typename Visit> void for_edges(ExpertTensor & t, std::uint8_t * begin, std::uint8_t * end, Visit visit) {
    if (t.shared.empty()) {
        return;
    }
    std::uint8_t * last = end - os::page_size();
    visit(t.shared[t.page_index(begin)], begin);
    if (last != begin) {
        visit(t.shared[t.page_index(last)], last);
    }
}

} // namespace

PageRun ExpertCache::begin_load(SliceId id) {
    slice(id).state   = SliceState::loading;
    ExpertTensor & t  = tensor(id);
    auto [begin, end] = pages_of(id);
    PageRun run{ &t, begin, static_cast<std::size_t>(end - begin) / os::page_size() };
    for_edges(t, begin, end, [&](ExpertTensor::SharedPage & shared, std::uint8_t * page) {
        ++shared.users;
        if (shared.installed && run.pages > 0) {
            --run.pages;
            if (page == run.begin) {
                run.begin += os::page_size();
            }
        }
    });
    return run;
}

std::vector<PageRun> ExpertCache::abandon_load(SliceId id) {
    ExpertTensor & t  = tensor(id);
    auto [begin, end] = pages_of(id);
    std::vector<PageRun> orphans;
    for_edges(t, begin, end, [&](ExpertTensor::SharedPage & shared, std::uint8_t * page) {
        // The neighbour that brought the page may have left while this load held on to it.
        if (--shared.users == 0 && shared.installed) {
            shared.installed = false;
            orphans.push_back({ &t, page, 1 });
        }
    });
    resident_pages_ -= orphans.size();
    unqueue(id);
    return orphans;
}

std::size_t ExpertCache::finish_load(SliceId id, const PageRun & run) {
    ExpertTensor & t  = tensor(id);
    auto [begin, end] = pages_of(id);
    std::size_t twice = 0;
    for_edges(t, begin, end, [&](ExpertTensor::SharedPage & shared, const std::uint8_t * page) {
        const bool in_run = page >= run.begin && page < run.begin + run.bytes();
        twice += shared.installed && in_run ? 1 : 0;
        shared.installed = true;
    });
    resident_pages_ += run.pages - twice;
    slice(id) = Slice{ SliceState::present };
    Group & g = groups_[id.group];
    --g.busy;
    ++g.present;
    g.was_loaded = true;
    return twice;
}

// Pages that nobody needs once this slice is gone.
PageRun ExpertCache::release(SliceId id) {
    ExpertTensor & t  = tensor(id);
    auto [begin, end] = pages_of(id);
    PageRun run{ &t, begin, static_cast<std::size_t>(end - begin) / os::page_size() };
    for_edges(t, begin, end, [&](ExpertTensor::SharedPage & shared, std::uint8_t * page) {
        if (--shared.users > 0) {
            --run.pages;
            if (page == run.begin) {
                run.begin += os::page_size();
            }
        } else {
            shared.installed = false;
        }
    });
    resident_pages_ -= run.pages;
    slice(id) = Slice{};
    --groups_[id.group].present;
    return run;
}

std::optional<std::vector<PageRun>> ExpertCache::pop_victim(bool spare_ahead) {
    for (std::uint32_t i = groups_[anchor_].newer; i != anchor_; i = groups_[i].newer) {
        Group & g = groups_[i];
        if (g.pin == tick_ || g.busy > 0 || g.present == 0 || (spare_ahead && g.ahead)) {
            continue;
        }
        std::vector<PageRun> runs;
        for (std::uint32_t slot = 0; slot < slots(i); ++slot) {
            const SliceId id{ i, slot };
            if (slice(id).state == SliceState::present) {
                if (const PageRun run = release(id); run.pages > 0) {
                    runs.push_back(run);
                }
            }
        }
        g.ahead = false;
        unlink(i);
        ++evictions_;
        return runs;
    }
    return std::nullopt;
}

} // namespace moestream

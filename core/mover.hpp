// How the bytes of a slice become present in the arena, and how they leave it.
//
//   move     Linux 6.8+: read into spare pages, then move the pages into place (no copy); evicting
//            moves them back, so pages are allocated once and recycled for ever.
//   copy     userfaultfd without UFFDIO_MOVE: read into a buffer, copy into fresh pages.
//   inplace  everywhere: read straight into the arena. Compute must wait until the read is over.
//
// `move` and `copy` let compute run into a page that is not there yet: it sleeps in the kernel until
// the page arrives. Each mover holds at most the pages it was given; `take` says no beyond that.
#pragma once

#include "expert_table.hpp"
#include "userfault.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace moestream {

struct MemoryRange {
    std::uint8_t * base  = nullptr;
    std::size_t    bytes = 0;
};

class PageMover {
  public:
    struct Config {
        std::vector<MemoryRange> arena;
        std::size_t              capacity_pages = 0; // bound on all memory held, buffers included
        std::size_t              max_run_pages  = 0; // of one slice
        std::size_t              lanes          = 1;
    };

    virtual ~PageMover() = default;

    virtual const char * name() const = 0;
    // Empty, or what failed.
    virtual std::string start(const Config & config) = 0;

    // Memory to read a run into, or nullptr if something must be evicted first. One taker at a time
    // over all lanes; what was taken stays the lane's until it installs it.
    virtual std::uint8_t * take(std::size_t lane, const PageRun & run) = 0;
    // Called right before reading, when no page of the run is on its way out any more.
    virtual bool prepare(const PageRun & run) {
        (void) run;
        return true;
    }
    // Makes the run present from what was read to `from`; pages already there stay.
    virtual std::string install(std::size_t lane, const PageRun & run, std::uint8_t * from) = 0;
    // So many pages of installed runs had been there already. A mover that could tell by itself has
    // accounted for it.
    virtual void discount(std::size_t pages) { (void) pages; }
    // Takes the run out of the arena. `lane` may be Config::lanes: "nobody in particular".
    virtual std::string evict(std::size_t lane, const PageRun & run) = 0;

    // Pages held now, in whatever place.
    virtual std::size_t held_pages() const = 0;

    // Allocates some memory ahead of its use; false when there is nothing to do at the moment.
    virtual bool prefault() { return false; }

    // Faults that wait for a page, or nullptr where compute cannot wait for one.
    virtual Userfault * faults() { return nullptr; }
};

struct MoverChoice {
    std::string name;
    std::string why_not_better; // why faster ones are not available; may be empty
};

// Movers that work on this machine, best first; each was tried on a scratch page.
const std::vector<MoverChoice> & available_movers();

// nullptr for an unknown name.
std::unique_ptr<PageMover> make_mover(const std::string & name);

std::unique_ptr<PageMover> make_move_mover();
std::unique_ptr<PageMover> make_copy_mover();
std::unique_ptr<PageMover> make_inplace_mover();

} // namespace moestream

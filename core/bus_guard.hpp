// Mapped files that get shorter: reading past their new end raises SIGBUS, which would end the
// process. Inside guarded ranges the page reads as zeros instead, and is remembered as lost.
#pragma once

#include "mover.hpp"

#include <cstddef>

namespace moestream {

class BusGuard {
  public:
    BusGuard() = default;
    ~BusGuard();
    BusGuard(const BusGuard &)             = delete;
    BusGuard & operator=(const BusGuard &) = delete;

    // False if there is no room for one more range; the range is then simply not guarded.
    bool watch(MemoryRange range);
    // Pages that could not be read, ever.
    std::size_t lost_pages() const;

  private:
    int slot_ = -1;
};

} // namespace moestream

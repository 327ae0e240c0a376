// Linux userfaultfd: page faults of registered memory wait until we bring the page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace moestream {

class Userfault {
  public:
    Userfault() = default;
    ~Userfault();
    Userfault(const Userfault &)             = delete;
    Userfault & operator=(const Userfault &) = delete;

    // Empty, or why this process cannot have one.
    std::string open();
    // Registers memory in which no page is present. Empty, or what failed.
    std::string watch(std::uint8_t * base, std::size_t bytes);

    // Moves pages from src to dst without copying and wakes who waits for them (Linux 6.8).
    // Pages already present at dst stay, and their twins at src are appended to `left_over`.
    // A page that the kernel will not move is copied instead, and src loses it all the same.
    // `done` counts the bytes dealt with: all of them unless it fails.
    std::string move(std::uint8_t *                dst,
                     std::uint8_t *                src,
                     std::size_t                   bytes,
                     std::vector<std::uint8_t *> & left_over,
                     std::size_t &                 done);
    // Copies, skipping pages that are present at dst; their number is added to `skipped`.
    std::string copy(std::uint8_t * dst, const std::uint8_t * src, std::size_t bytes, std::size_t & skipped);
    void        wake(std::uint8_t * page);

    // Addresses of faults nobody has collected yet; does not block.
    std::vector<std::uint8_t *> pending_faults();

  private:
    int fd_ = -1;
};

// Which movers work here, tried on a scratch page: see mover.hpp for their names.
bool userfault_can_copy(std::string & why_not);
bool userfault_can_move(std::string & why_not);

} // namespace moestream

// Operating system memory, page by page. The only file pair with platform branches for memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace moestream::os {

std::size_t page_size();

// Address space without memory behind it; nullptr if the system refuses. Reads of it are zeros.
std::uint8_t * reserve(std::size_t bytes);
void           release(std::uint8_t * base, std::size_t bytes);

// Makes pages usable before they are first written (a no-op where the system does it on demand).
bool commit(std::uint8_t * addr, std::size_t bytes);

// Gives the pages back; they read as zeros afterwards.
void discard(std::uint8_t * addr, std::size_t bytes);

// Allocates the pages now, so that nobody waits for it later. False if the system cannot.
bool populate(std::uint8_t * addr, std::size_t bytes);

// Whether the page has memory behind it. True where the system cannot tell.
bool is_present(const std::uint8_t * page);

// Grows by one in every forked child: what was made under another number belongs to the parent.
int fork_generation();

// The calling thread should only use cores that nobody else wants.
void lower_thread_priority();

} // namespace moestream::os

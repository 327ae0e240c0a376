#include "os.hpp"

#include <atomic>

#ifdef _WIN32
#    define WIN32_LEAN_AND_MEAN
#    define NOMINMAX
#    include <windows.h>
#else
#    include <pthread.h>
#    include <sys/mman.h>
#    include <unistd.h>
#endif
#ifdef __linux__
#    include <sys/resource.h>
#    include <sys/syscall.h>
#endif

namespace moestream::os {

namespace {

std::atomic<int> generation{ 0 };

#ifndef _WIN32
const int registered = pthread_atfork(nullptr, nullptr, [] { ++generation; });
#endif

} // namespace

int fork_generation() {
#ifndef _WIN32
    (void) registered;
#endif
    return generation.load();
}

#ifdef _WIN32

std::size_t page_size() {
    static const std::size_t size = [] {
        SYSTEM_INFO info;
        GetSystemInfo(&info);
        return static_cast<std::size_t>(info.dwPageSize);
    }();
    return size;
}

std::uint8_t * reserve(std::size_t bytes) {
    return static_cast<std::uint8_t *>(VirtualAlloc(nullptr, bytes, MEM_RESERVE, PAGE_READWRITE));
}

void release(std::uint8_t * base, std::size_t) {
    VirtualFree(base, 0, MEM_RELEASE);
}

bool commit(std::uint8_t * addr, std::size_t bytes) {
    return VirtualAlloc(addr, bytes, MEM_COMMIT, PAGE_READWRITE) != nullptr;
}

void discard(std::uint8_t * addr, std::size_t bytes) {
    VirtualFree(addr, bytes, MEM_DECOMMIT);
}

bool populate(std::uint8_t * addr, std::size_t bytes) {
    return commit(addr, bytes);
}

bool is_present(const std::uint8_t *) {
    return true;
}

void lower_thread_priority() {
    SetThreadPriority(GetCurrentThread(), THREAD_PRIORITY_IDLE);
}

#else

std::size_t page_size() {
    static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    return size;
}

std::uint8_t * reserve(std::size_t bytes) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
#    ifdef MAP_NORESERVE
    flags |= MAP_NORESERVE;
#    endif
    void * base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (base == MAP_FAILED) {
        return nullptr;
    }
#    ifdef __linux__
    // Pages come and go one by one: huge pages would be split at once. A forked child must not
    // share them either, since shared pages cannot be moved and a child has no userfaultfd.
    madvise(base, bytes, MADV_NOHUGEPAGE);
    madvise(base, bytes, MADV_DONTFORK);
    madvise(base, bytes, MADV_DONTDUMP);
#    endif
    return static_cast<std::uint8_t *>(base);
}

void release(std::uint8_t * base, std::size_t bytes) {
    munmap(base, bytes);
}

bool commit(std::uint8_t *, std::size_t) {
    return true;
}

void discard(std::uint8_t * addr, std::size_t bytes) {
#    ifdef __linux__
    madvise(addr, bytes, MADV_DONTNEED);
#    else
    // Elsewhere MADV_DONTNEED is only a hint; a fresh mapping in place really drops the pages.
    mmap(addr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
#    endif
}

bool populate(std::uint8_t * addr, std::size_t bytes) {
#    ifdef __linux__
#        ifndef MADV_POPULATE_WRITE
#            define MADV_POPULATE_WRITE 23
#        endif
    return madvise(addr, bytes, MADV_POPULATE_WRITE) == 0;
#    else
    (void) addr;
    (void) bytes;
    return false;
#    endif
}

bool is_present(const std::uint8_t * page) {
#    ifdef __linux__
    unsigned char present = 0;
    return mincore(const_cast<std::uint8_t *>(page), page_size(), &present) != 0 || (present & 1) != 0;
#    else
    (void) page;
    return true;
#    endif
}

void lower_thread_priority() {
#    ifdef __linux__
    setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), 19);
#    endif
}

#endif

} // namespace moestream::os

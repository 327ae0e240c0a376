#include "userfault.hpp"

#include "os.hpp"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#ifdef __linux__
#    include <fcntl.h>
#    include <linux/userfaultfd.h>
#    include <sys/ioctl.h>
#    include <sys/syscall.h>
#    include <unistd.h>
// Kernel interface newer than many installed headers.
#    ifndef UFFD_USER_MODE_ONLY
#        define UFFD_USER_MODE_ONLY 1
#    endif
#    ifndef UFFDIO_MOVE
struct uffdio_move {
    __u64 dst;
    __u64 src;
    __u64 len;
    __u64 mode;
    __s64 move;
};
#        define UFFDIO_MOVE _IOWR(UFFDIO, 0x05, struct uffdio_move)
#    endif
#endif

namespace moestream {

#ifdef __linux__

namespace {

constexpr int kMoveTries = 2000;

template <typename T> auto as_address(T * pointer) {
    return static_cast<__u64>(reinterpret_cast<std::uintptr_t>(pointer));
}

std::string failed(const char * what) {
    return std::string(what) + " failed: " + std::strerror(errno);
}

// The kernel answers "try again" while it holds a page for a moment (a finished read that is not
// yet accounted, a page in a per-CPU list): yield first, then sleep.
void back_off(int attempt) {
    if (attempt % 16 == 15) {
        std::this_thread::sleep_for(std::chrono::microseconds(20));
    } else {
        std::this_thread::yield();
    }
}

} // namespace

Userfault::~Userfault() {
    if (fd_ >= 0) {
        ::close(fd_);
    }
}

std::string Userfault::open() {
    fd_ = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY));
    if (fd_ < 0) {
        return failed("userfaultfd");
    }
    uffdio_api api{};
    api.api = UFFD_API;
    if (ioctl(fd_, UFFDIO_API, &api) != 0) {
        return failed("userfaultfd handshake");
    }
    return {};
}

std::string Userfault::watch(std::uint8_t * base, std::size_t bytes) {
    uffdio_register range{};
    range.range.start = as_address(base);
    range.range.len   = bytes;
    range.mode        = UFFDIO_REGISTER_MODE_MISSING;
    return ioctl(fd_, UFFDIO_REGISTER, &range) == 0 ? std::string() : failed("userfaultfd register");
}

std::string Userfault::move(std::uint8_t *                dst,
                            std::uint8_t *                src,
                            std::size_t                   bytes,
                            std::vector<std::uint8_t *> & left_over,
                            std::size_t &                 done) {
    const std::size_t page = os::page_size();
    done                   = 0;
    int tries              = 0;
    while (done < bytes) {
        uffdio_move request{};
        request.dst = as_address(dst + done);
        request.src = as_address(src + done);
        request.len = bytes - done;
        if (ioctl(fd_, UFFDIO_MOVE, &request) == 0) {
            done = bytes;
            return {};
        }
        const int reason = errno;
        if (request.move > 0) {
            done += static_cast<std::size_t>(request.move);
            tries = 0;
        } else if (reason == EEXIST) {
            // Unless the kernel had moved the page already when it last said "try again".
            if (os::is_present(src + done)) {
                left_over.push_back(src + done);
            }
            done += page;
        } else if ((reason == EBUSY || reason == EAGAIN) && ++tries < kMoveTries) {
            back_off(tries);
        } else if (reason == EBUSY || reason == EAGAIN) {
            std::size_t skipped = 0;
            if (std::string error = copy(dst + done, src + done, page, skipped); !error.empty()) {
                return error;
            }
            os::discard(src + done, page);
            done += page;
            tries = 0;
        } else {
            return failed("moving pages");
        }
    }
    return {};
}

std::string Userfault::copy(std::uint8_t * dst, const std::uint8_t * src, std::size_t bytes, std::size_t & skipped) {
    const std::size_t page  = os::page_size();
    std::size_t       done  = 0;
    int               tries = 0;
    while (done < bytes) {
        uffdio_copy request{};
        request.dst = as_address(dst + done);
        request.src = as_address(src + done);
        request.len = bytes - done;
        if (ioctl(fd_, UFFDIO_COPY, &request) == 0) {
            return {};
        }
        const int reason = errno;
        if (request.copy > 0) {
            done += static_cast<std::size_t>(request.copy);
            tries = 0;
        } else if (reason == EEXIST) {
            wake(dst + done);
            ++skipped;
            done += page;
        } else if (reason == EAGAIN && ++tries < kMoveTries) {
            back_off(tries);
        } else {
            return failed("copying pages");
        }
    }
    return {};
}

void Userfault::wake(std::uint8_t * page) {
    uffdio_range range{};
    range.start = as_address(page);
    range.len   = os::page_size();
    ioctl(fd_, UFFDIO_WAKE, &range);
}

std::vector<std::uint8_t *> Userfault::pending_faults() {
    std::vector<std::uint8_t *> pages;
    uffd_msg                    messages[16];
    for (;;) {
        const ssize_t n = ::read(fd_, messages, sizeof messages);
        if (n <= 0) {
            return pages;
        }
        for (std::size_t i = 0; i < static_cast<std::size_t>(n) / sizeof messages[0]; ++i) {
            if (messages[i].event == UFFD_EVENT_PAGEFAULT) {
                const std::uintptr_t address = messages[i].arg.pagefault.address;
                pages.push_back(reinterpret_cast<std::uint8_t *>(address / os::page_size() * os::page_size()));
            }
        }
    }
}

namespace {

// Runs `attempt` on a watched page and an unwatched page that holds a mark.
template <typename Attempt> bool on_scratch_pages(std::string & why_not, Attempt attempt) {
    const std::size_t page = os::page_size();
    Userfault         fault;
    why_not = fault.open();
    if (!why_not.empty()) {
        return false;
    }
    std::uint8_t * watched = os::reserve(page);
    std::uint8_t * source  = os::reserve(page);
    if (watched == nullptr || source == nullptr) {
        why_not = "no memory for the self-test";
    } else {
        source[0] = 42;
        why_not   = fault.watch(watched, page);
        if (why_not.empty()) {
            why_not = attempt(fault, watched, source, page);
        }
        if (why_not.empty() && watched[0] != 42) {
            why_not = "the self-test read back wrong bytes";
        }
    }
    if (watched != nullptr) {
        os::release(watched, page);
    }
    if (source != nullptr) {
        os::release(source, page);
    }
    return why_not.empty();
}

} // namespace

bool userfault_can_copy(std::string & why_not) {
    return on_scratch_pages(why_not, [](Userfault & fault, auto * dst, auto * src, auto page) {
        std::size_t skipped = 0;
        return fault.copy(dst, src, page, skipped);
    });
}

bool userfault_can_move(std::string & why_not) {
    return on_scratch_pages(why_not, [](Userfault & fault, auto * dst, auto * src, auto page) {
        std::vector<std::uint8_t *> left_over;
        std::size_t                 done = 0;
        return fault.move(dst, src, page, left_over, done);
    });
}

#else

Userfault::~Userfault() = default;

namespace {
const char * const kNotHere = "userfaultfd is a feature of Linux";
}

std::string Userfault::open() {
    return kNotHere;
}
std::string Userfault::watch(std::uint8_t *, std::size_t) {
    return kNotHere;
}
std::string Userfault::move(std::uint8_t *, std::uint8_t *, std::size_t, std::vector<std::uint8_t *> &, std::size_t &) {
    return kNotHere;
}
std::string Userfault::copy(std::uint8_t *, const std::uint8_t *, std::size_t, std::size_t &) {
    return kNotHere;
}
void                        Userfault::wake(std::uint8_t *) {}
std::vector<std::uint8_t *> Userfault::pending_faults() {
    return {};
}
bool userfault_can_copy(std::string & why_not) {
    why_not = kNotHere;
    return false;
}
bool userfault_can_move(std::string & why_not) {
    why_not = kNotHere;
    return false;
}

#endif

} // namespace moestream

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE // O_DIRECT
#endif
#include "shard_file.hpp"

#include "os.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#ifdef _WIN32
#    define WIN32_LEAN_AND_MEAN
#    define NOMINMAX
#    include <io.h>
#    include <windows.h>
#else
#    include <unistd.h>
#endif

namespace moestream {

namespace {

#ifdef _WIN32
using off_type = std::int64_t;

int open_read_only(const char * path) {
    return _open(path, _O_RDONLY | _O_BINARY);
}

void close_fd(int fd) {
    _close(fd);
}

// _lseeki64 would race between lanes; an OVERLAPPED carries the offset with the read.
std::int64_t read_at(int fd, void * dst, std::size_t bytes, std::uint64_t offset) {
    OVERLAPPED at{};
    at.Offset     = static_cast<DWORD>(offset);
    at.OffsetHigh = static_cast<DWORD>(offset >> 32);
    DWORD      n  = 0;
    const auto m  = static_cast<DWORD>(std::min<std::size_t>(bytes, 1u << 30));
    if (!ReadFile(reinterpret_cast<HANDLE>(_get_osfhandle(fd)), dst, m, &n, &at)) {
        if (GetLastError() == ERROR_HANDLE_EOF) {
            return 0;
        }
        errno = EIO;
        return -1;
    }
    return n;
}

std::uint64_t file_size(int fd) {
    struct _stat64 st{};
    return _fstat64(fd, &st) == 0 ? static_cast<std::uint64_t>(st.st_size) : 0;
}
#else
int open_read_only(const char * path) {
    return open(path, O_RDONLY | O_CLOEXEC);
}

void close_fd(int fd) {
    close(fd);
}

std::int64_t read_at(int fd, void * dst, std::size_t bytes, std::uint64_t offset) {
    ssize_t n;
    do {
        n = pread(fd, dst, bytes, static_cast<off_t>(offset));
    } while (n < 0 && errno == EINTR);
    return n;
}

std::uint64_t file_size(int fd) {
    struct stat st{};
    return fstat(fd, &st) == 0 ? static_cast<std::uint64_t>(st.st_size) : 0;
}
#endif

std::string at_offset(const std::string & path, std::uint64_t offset) {
    return path + " at byte " + std::to_string(offset);
}

} // namespace

ShardFile::ShardFile(std::string path) : path_(std::move(path)) {
    fd_ = open_read_only(path_.c_str());
    if (fd_ < 0) {
        throw std::system_error(errno, std::generic_category(), "cannot open " + path_);
    }
    size_ = file_size(fd_);
}

ShardFile::~ShardFile() {
    if (fd_ >= 0) {
        close_fd(fd_);
    }
    if (direct_fd_ >= 0) {
        close_fd(direct_fd_);
    }
}

ShardFile::ShardFile(ShardFile && other) noexcept :
    path_(std::move(other.path_)),
    fd_(std::exchange(other.fd_, -1)),
    direct_fd_(std::exchange(other.direct_fd_, -1)),
    size_(other.size_) {}

std::string ShardFile::enable_direct_io(std::uint64_t probe_offset) {
#ifdef O_DIRECT
    const int fd = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
    if (fd < 0) {
        return std::string("the filesystem refuses direct I/O (") + std::strerror(errno) + ")";
    }
    const std::size_t page   = os::page_size();
    std::uint8_t *    memory = os::reserve(2 * page);
    if (memory == nullptr) {
        close_fd(fd);
        return "no memory to try direct I/O";
    }
    std::string        reason;
    const std::int64_t direct = read_at(fd, memory, page, probe_offset);
    if (direct < 0) {
        reason = std::string("the filesystem fails direct reads (") + std::strerror(errno) + ")";
    } else {
        const std::int64_t plain = read_at(fd_, memory + page, page, probe_offset);
        if (plain != direct || std::memcmp(memory, memory + page, static_cast<std::size_t>(direct)) != 0) {
            reason = "the filesystem returns wrong bytes for direct reads";
        }
    }
    os::release(memory, 2 * page);
    if (!reason.empty()) {
        close_fd(fd);
        return reason;
    }
    direct_fd_ = fd;
    return {};
#else
    (void) probe_offset;
    return "this platform has no direct I/O";
#endif
}

std::string ShardFile::read(std::uint64_t offset, std::uint8_t * dst, std::size_t bytes) const {
    // Only the file's last page may come back short.
    const std::size_t needed =
        offset >= size_ ? 0 : static_cast<std::size_t>(std::min<std::uint64_t>(bytes, size_ - offset));
    std::size_t done = 0;
    int         fd   = direct_fd_ >= 0 ? direct_fd_ : fd_;
    while (done < needed) {
        const std::int64_t n = read_at(fd, dst + done, bytes - done, offset + done);
        if (n < 0) {
            if (errno == EINVAL && fd == direct_fd_) {
                fd = fd_; // a short direct read left us between blocks
                continue;
            }
            return "cannot read " + at_offset(path_, offset + done) + ": " + std::strerror(errno);
        }
        if (n == 0) {
            return path_ + " ends at byte " + std::to_string(offset + done) + ", but had " + std::to_string(size_) +
                   " bytes when it was opened; was it truncated?";
        }
        done += static_cast<std::size_t>(n);
    }
    done = std::min(done, bytes);
    std::memset(dst + done, 0, bytes - done);
    return {};
}

} // namespace moestream

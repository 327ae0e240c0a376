// One GGUF shard, read at page granularity, past the page cache where that works.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace moestream {

class ShardFile {
  public:
    // Throws std::system_error if the file cannot be opened.
    explicit ShardFile(std::string path);
    ~ShardFile();
    ShardFile(ShardFile && other) noexcept;
    ShardFile(const ShardFile &)             = delete;
    ShardFile & operator=(const ShardFile &) = delete;
    ShardFile & operator=(ShardFile &&)      = delete;

    // Switches direct I/O on if the file takes it and returns the right bytes at `probe_offset`
    // (page aligned): some filesystems accept the flag and return something else. The reason
    // otherwise.
    std::string enable_direct_io(std::uint64_t probe_offset);

    // Fills dst[0, bytes) from `offset`; all three in whole pages. The last page of the file is
    // filled up with zeros. Returns an empty string or what went wrong, in words.
    std::string read(std::uint64_t offset, std::uint8_t * dst, std::size_t bytes) const;

    bool                direct() const { return direct_fd_ >= 0; }
    std::uint64_t       size() const { return size_; }
    const std::string & path() const { return path_; }

  private:
    std::string   path_;
    int           fd_        = -1;
    int           direct_fd_ = -1;
    std::uint64_t size_      = 0;
};

} // namespace moestream

#include "dense_mapping.hpp"

#include "os.hpp"

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>
#include <utility>

#ifndef _WIN32
#    include <fcntl.h>
#    include <sys/mman.h>
#    include <unistd.h>
#endif

namespace moestream {

DenseMapping::DenseMapping(std::vector<std::string> files) :
    files_(std::move(files)),
    type_(
        "moestream-dense",
        [this](const char * name, std::uint64_t & offset) {
            const auto found = tensors_.find(name);
            if (found == tensors_.end()) {
                return false;
            }
            offset = found->second.offset;
            return true;
        },
        [this](ggml_tensor * tensor) { return map(tensor); }) {
#ifdef _WIN32
    throw std::runtime_error("mapped dense weights are not available on Windows");
#else
    for (const std::string & file : files_) {
        const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
        if (fd < 0) {
            throw std::system_error(errno, std::generic_category(), "cannot open " + file);
        }
        fds_.push_back(fd);
    }
#endif
}

DenseMapping::~DenseMapping() {
#ifndef _WIN32
    for (const int fd : fds_) {
        close(fd);
    }
#endif
}

void DenseMapping::add(const std::string & name, std::size_t file, std::uint64_t offset, std::uint64_t bytes) {
    if (file >= files_.size()) {
        throw std::runtime_error("tensor " + name + " lies in a file nobody named");
    }
    tensors_[name] = { file, offset, bytes };
}

std::string DenseMapping::map(ggml_tensor * tensor) {
#ifdef _WIN32
    (void) tensor;
    return "mapped dense weights are not available on Windows";
#else
    const Tensor & known = tensors_.at(tensor->name);
    if (ggml_nbytes(tensor) != known.bytes) {
        return std::string("tensor ") + tensor->name + " has another size in llama.cpp than in the file";
    }
    const std::size_t page    = os::page_size();
    const std::size_t lead    = known.offset % page;
    auto *            address = static_cast<std::uint8_t *>(tensor->data) - lead;
    const std::size_t bytes   = (lead + known.bytes + page - 1) / page * page;
    void *            at      = mmap(address, bytes, PROT_READ, MAP_PRIVATE | MAP_FIXED, fds_[known.file],
                                     static_cast<off_t>(known.offset - lead));
    if (at == MAP_FAILED) {
        return "cannot map " + files_[known.file] + ": " + std::strerror(errno);
    }
    mapped_.push_back({ address, bytes });
    return {};
#endif
}

void DenseMapping::finish_load() {
    type_.finish_load();
    for (const MemoryRange & range : type_.ranges()) {
        guards_.push_back(std::make_unique<BusGuard>());
        guards_.back()->watch(range);
    }
}

std::size_t DenseMapping::lost_pages() const {
    std::size_t lost = 0;
    for (const auto & guard : guards_) {
        lost += guard->lost_pages();
    }
    return lost;
}

std::uint64_t DenseMapping::warm() {
    std::uint64_t touched = 0;
#ifndef _WIN32
    for (const MemoryRange & range : mapped_) {
        madvise(range.base, range.bytes, MADV_WILLNEED);
    }
    volatile std::uint8_t sink = 0;
    for (const MemoryRange & range : mapped_) {
        for (std::size_t at = 0; at < range.bytes; at += os::page_size()) {
            sink = range.base[at];
        }
        touched += range.bytes;
    }
    (void) sink;
#endif
    return touched;
}

} // namespace moestream

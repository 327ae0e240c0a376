#include "bus_guard.hpp"

#include "os.hpp"

#include <array>
#include <atomic>
#include <mutex>

#ifndef _WIN32
#    include <signal.h>
#    include <sys/mman.h>
#endif

namespace moestream {

namespace {

// Read by a signal handler: fixed size, atomics only. A guard is one contiguous range, since a
// model's tensors lie in one buffer.
struct Slot {
    std::atomic<std::uintptr_t> begin{ 0 };
    std::atomic<std::uintptr_t> end{ 0 };
    std::atomic<std::size_t>    lost{ 0 };
    bool                        taken = false; // under the mutex
};

std::array<Slot, 64> slots;
std::mutex           slots_mutex;

#ifndef _WIN32

struct sigaction previous;

void on_bus_error(int signal_number, siginfo_t * info, void * context) {
    const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
    for (Slot & slot : slots) {
        if (address < slot.begin.load() || address >= slot.end.load()) {
            continue;
        }
        const std::size_t page = os::page_size();
        void * const      at   = reinterpret_cast<void *>(address / page * page);
        if (mmap(at, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at) {
            ++slot.lost;
            return;
        }
    }
    if ((previous.sa_flags & SA_SIGINFO) != 0) {
        previous.sa_sigaction(signal_number, info, context);
    } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
        previous.sa_handler(signal_number);
    } else {
        // Not ours: let it happen again, undisturbed.
        sigaction(SIGBUS, &previous, nullptr);
    }
}

void install_handler() {
    static const bool once = [] {
        os::page_size(); // its first call must not be in the handler
        struct sigaction action{};
        action.sa_sigaction = on_bus_error;
        action.sa_flags     = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
        sigemptyset(&action.sa_mask);
        return sigaction(SIGBUS, &action, &previous) == 0;
    }();
    (void) once;
}

#else

void install_handler() {}

#endif

} // namespace

BusGuard::~BusGuard() {
    if (slot_ >= 0) {
        std::lock_guard<std::mutex> lock(slots_mutex);
        Slot &                      slot = slots[static_cast<std::size_t>(slot_)];
        slot.end                         = 0;
        slot.begin                       = 0;
        slot.taken                       = false;
    }
}

bool BusGuard::watch(MemoryRange range) {
    install_handler();
    std::lock_guard<std::mutex> lock(slots_mutex);
    for (std::size_t i = 0; i < slots.size() && slot_ < 0; ++i) {
        if (!slots[i].taken) {
            slots[i].taken = true;
            slots[i].lost  = 0;
            slot_          = static_cast<int>(i);
        }
    }
    if (slot_ < 0) {
        return false;
    }
    Slot & slot = slots[static_cast<std::size_t>(slot_)];
    slot.begin  = reinterpret_cast<std::uintptr_t>(range.base);
    slot.end    = slot.begin + range.bytes;
    return true;
}

std::size_t BusGuard::lost_pages() const {
    return slot_ < 0 ? 0 : slots[static_cast<std::size_t>(slot_)].lost.load();
}

} // namespace moestream

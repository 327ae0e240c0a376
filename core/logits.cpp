#include "logits.hpp"

#include <cmath>
#include <cstring>
#include <limits>

// One build runs everywhere, and uses wide registers where there are some.
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__)
#    define MOESTREAM_WIDE __attribute__((target_clones("avx2", "default")))
#else
#    define MOESTREAM_WIDE
#endif

namespace moestream {

namespace {

constexpr std::size_t kLanes   = 8;     // wider ones than the registers are taken apart badly
constexpr std::size_t kStreams = 8;     // read side by side: a row that has left the caches comes faster
constexpr std::size_t kBlock   = 32768; // logits: stays in the second cache between two looks

typedef float        Floats __attribute__((vector_size(kLanes * sizeof(float))));
typedef std::int32_t Ints __attribute__((vector_size(kLanes * sizeof(float))));

// Returned through pointers: wide vectors by value have no stable calling convention.
MOESTREAM_WIDE void block_max(const float * row, std::size_t n, float * best, bool * has_nan) {
    Floats            most[kStreams] = {};
    Ints              nan            = {};
    const std::size_t length         = n / kStreams / kLanes * kLanes;
    for (Floats & stream : most) {
        stream -= std::numeric_limits<float>::infinity();
    }
    for (std::size_t i = 0; i < length; i += kLanes) {
        for (std::size_t stream = 0; stream < kStreams; ++stream) {
            Floats x;
            std::memcpy(&x, row + stream * length + i, sizeof x);
            nan |= x != x;
            most[stream] = x > most[stream] ? x : most[stream];
        }
    }
    float top = -std::numeric_limits<float>::infinity();
    bool  bad = false;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
        for (const Floats & stream : most) {
            top = stream[lane] > top ? stream[lane] : top;
        }
        bad = bad || nan[lane] != 0;
    }
    for (std::size_t i = kStreams * length; i < n; ++i) {
        top = row[i] > top ? row[i] : top;
        bad = bad || row[i] != row[i];
    }
    *best    = top;
    *has_nan = bad;
}

// The first logit that has the value, from `at` on; there is one.
MOESTREAM_WIDE void find(const float * row, std::size_t n, float value, std::size_t * at) {
    constexpr std::size_t kStep = kStreams * kLanes;
    std::size_t           i     = *at;
    for (; i + kStep <= n; i += kStep) {
        Ints equal = {};
        for (std::size_t stream = 0; stream < kStreams; ++stream) {
            Floats x;
            std::memcpy(&x, row + i + stream * kLanes, sizeof x);
            equal |= x == value;
        }
        std::int32_t any = 0;
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
            any |= equal[lane];
        }
        if (any != 0) {
            break;
        }
    }
    while (i < n && row[i] != value) {
        ++i;
    }
    *at = i;
}

// exp(x) for -80 <= x <= 0: 2^k by the exponent bits, the rest by a polynomial (error below 1e-5).
MOESTREAM_WIDE void sum_exp(const float * row, std::size_t n, float best, double * sum) {
    Floats      total = {};
    Floats      least = {};
    std::size_t i     = 0;
    least -= 80.0F;
    for (; i + kLanes <= n; i += kLanes) {
        Floats x;
        std::memcpy(&x, row + i, sizeof x);
        x                 = x - best;
        x                 = x > least ? x : least;
        const Floats t    = x * 1.44269504F;
        const Ints   k    = __builtin_convertvector(t - 0.5F, Ints);
        const Floats f    = (t - __builtin_convertvector(k, Floats)) * 0.693147181F;
        const Floats p    = 1.0F + f * (1.0F + f * (0.5F + f * (0.166666667F + f * (0.0416666667F + f * 0.00833333F))));
        const Ints   bits = (k + 127) << 23;
        Floats       scale;
        std::memcpy(&scale, &bits, sizeof scale);
        total += p * scale;
    }
    double result = 0;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
        result += static_cast<double>(total[lane]);
    }
    for (; i < n; ++i) {
        result += std::exp(static_cast<double>(row[i] - best));
    }
    *sum = result;
}

} // namespace

BestLogit best_logit(const float * row, std::size_t n) {
    BestLogit   found{ 0, -std::numeric_limits<float>::infinity() };
    std::size_t where = 0;
    for (std::size_t start = 0; start < n; start += kBlock) {
        const std::size_t size = n - start < kBlock ? n - start : kBlock;
        float             top  = 0;
        bool              nan  = false;
        block_max(row + start, size, &top, &nan);
        if (nan) {
            found.value = std::numeric_limits<float>::quiet_NaN();
            return found;
        }
        if (top > found.value) {
            found.value = top;
            where       = start;
        }
    }
    find(row, n, found.value, &where);
    found.index = static_cast<std::int64_t>(where < n ? where : 0);
    return found;
}

float best_probability(const float * row, std::size_t n, float best) {
    double sum = 0;
    sum_exp(row, n, best, &sum);
    return static_cast<float>(1.0 / sum);
}

} // namespace moestream

// Looking over rows of logits: once, at the speed of memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace moestream {

struct BestLogit {
    std::int64_t index = 0; // the lowest of those that share the value
    float        value = 0; // NaN if any logit of the row is NaN
};

BestLogit best_logit(const float * row, std::size_t n);

// Probability of the best logit under a softmax over the row, good to four digits.
float best_probability(const float * row, std::size_t n, float best);

} // namespace moestream

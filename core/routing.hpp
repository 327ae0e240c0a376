// Routing of one micro-batch in one layer, as the graph holds it: editable, strided.
#pragma once

#include <cstddef>
#include <cstdint>

namespace moestream {

struct Routing {
    std::int32_t * ids           = nullptr; // [n_tokens][n_used], in the router's rank order
    float *        weights       = nullptr; // same shape, or nullptr; needed for dropping and traces only
    std::size_t    ids_stride    = 0;       // bytes from token to token
    std::size_t    weights_slot  = 0;       // bytes from slot to slot
    std::size_t    weights_token = 0;       // bytes from token to token
    std::int64_t   n_used        = 0;
    std::int64_t   n_tokens      = 0;

    std::size_t size() const { return static_cast<std::size_t>(n_used * n_tokens); }

    std::int32_t & id(std::int64_t token, std::int64_t slot) const {
        auto * row = reinterpret_cast<std::uint8_t *>(ids) + static_cast<std::size_t>(token) * ids_stride;
        return reinterpret_cast<std::int32_t *>(row)[slot];
    }

    float & weight(std::int64_t token, std::int64_t slot) const {
        auto * base = reinterpret_cast<std::uint8_t *>(weights);
        return *reinterpret_cast<float *>(base + static_cast<std::size_t>(token) * weights_token +
                                          static_cast<std::size_t>(slot) * weights_slot);
    }
};

} // namespace moestream

#include "router_hook.hpp"

#include <cstdlib>
#include <cstring>

namespace moestream {

RouterHook::RouterHook(ExpertStore & store, const std::string & routing_node, const std::string & weights_node) :
    store_(store), routing_prefix_(routing_node + "-"), weights_prefix_(weights_node + "-") {}

bool RouterHook::on_node(ggml_tensor * node, bool ask, void * user_data) noexcept {
    auto & hook = *static_cast<RouterHook *>(user_data);
    try {
        if (ask) {
            return hook.wants(node);
        }
        hook.take(node);
    } catch (const std::exception & error) {
        hook.store_.fail(error.what());
    }
    return hook.store_.may_go_on();
}

bool RouterHook::on_abort_check(void * user_data) noexcept {
    return !static_cast<RouterHook *>(user_data)->store_.may_go_on();
}

int RouterHook::layer_from_name(const ggml_tensor * node, const std::string & prefix) const {
    if (std::strncmp(node->name, prefix.c_str(), prefix.size()) != 0) {
        return -1;
    }
    const char * digits = node->name + prefix.size();
    char *       end    = nullptr;
    const long   layer  = std::strtol(digits, &end, 10);
    return end != digits && *end == '\0' ? static_cast<int>(layer) : -1;
}

bool RouterHook::wants(const ggml_tensor * node) {
    if (node->op == GGML_OP_MUL_MAT_ID) {
        // Experts about to be used whose routing was not seen: their bytes would be missing.
        const auto found = layer_of_.find(node->src[0]);
        if (found != layer_of_.end() && found->second != routed_layer_) {
            store_.fail("the graph uses " + std::string(node->src[0]->name) +
                        " before its routing was seen; this llama.cpp names its nodes differently");
        }
        return false;
    }
    // When routings may be dropped, wait for their weights, which come right after. A trace has to
    // see them too, but must not hold up the reads.
    int layer = store_.drops() ? -1 : layer_from_name(node, routing_prefix_);
    if (layer < 0 && (store_.drops() || store_.traces())) {
        layer = layer_from_name(node, weights_prefix_);
    }
    return layer >= 0 && store_.table().layer(layer) != nullptr;
}

namespace {

// The ids that picked these weights: follow views back to the GET_ROWS that used them.
ggml_tensor * ids_of_weights(ggml_tensor * weights) {
    for (ggml_tensor * t = weights; t != nullptr; t = t->src[0]) {
        if (t->op == GGML_OP_GET_ROWS) {
            return t->src[1];
        }
    }
    return nullptr;
}

} // namespace

void RouterHook::take(ggml_tensor * node) {
    const int     routed   = layer_from_name(node, routing_prefix_);
    const bool    weighted = routed < 0;
    const int     layer    = weighted ? layer_from_name(node, weights_prefix_) : routed;
    ggml_tensor * ids      = weighted ? ids_of_weights(node) : node;
    Routing       routing  = {};
    if (ids == nullptr || ids->type != GGML_TYPE_I32 || ids->data == nullptr || ids->nb[0] != sizeof(std::int32_t)) {
        store_.fail("the routing of layer " + std::to_string(layer) + " is not in the expected form");
        return;
    }
    routing.ids        = static_cast<std::int32_t *>(ids->data);
    routing.ids_stride = ids->nb[1];
    routing.n_used     = ids->ne[0];
    routing.n_tokens   = ids->ne[1];
    if (weighted) {
        // [1, n_used, n_tokens], or [n_used, n_tokens] after a softmax.
        const bool stacked = node->ne[0] == 1 && node->ne[1] == routing.n_used && node->ne[2] == routing.n_tokens;
        const int  slot    = stacked ? 1 : 0;
        if (node->type != GGML_TYPE_F32 || node->ne[slot] != routing.n_used || node->ne[slot + 1] != routing.n_tokens) {
            store_.fail("the routing weights of layer " + std::to_string(layer) + " are not in the expected form");
            return;
        }
        routing.weights       = static_cast<float *>(node->data);
        routing.weights_slot  = node->nb[slot];
        routing.weights_token = node->nb[slot + 1];
        if (!store_.drops()) {
            store_.weigh(layer, routing);
            return;
        }
    }
    routed_layer_ = layer;
    store_.route(layer, routing);
}

} // namespace moestream

// Sees each layer's routing in the running graph, and tells the store.
//
// llama.cpp's scheduler asks for every node whether we want to look at it, and then computes up to
// it and shows it. Only the routing node of each streamed layer is wanted (and that of the weights
// for dropping or a trace): cutting the graph costs a synchronisation of the compute threads.
#pragma once

#include "store.hpp"

#include "ggml.h"

#include <string>
#include <unordered_map>

namespace moestream {

class RouterHook {
  public:
    // Names are those of graph nodes without their "-<layer>".
    RouterHook(ExpertStore & store, const std::string & routing_node, const std::string & weights_node);

    void watch(const ggml_tensor * experts, int layer) { layer_of_[experts] = layer; }

    // ggml_backend_sched_eval_callback and ggml_abort_callback; user_data is the hook.
    static bool on_node(ggml_tensor * node, bool ask, void * user_data) noexcept;
    static bool on_abort_check(void * user_data) noexcept;

  private:
    bool wants(const ggml_tensor * node);
    void take(ggml_tensor * node);
    int  layer_from_name(const ggml_tensor * node, const std::string & prefix) const;

    ExpertStore &                                store_;
    std::string                                  routing_prefix_;
    std::string                                  weights_prefix_;
    std::unordered_map<const ggml_tensor *, int> layer_of_;
    int                                          routed_layer_ = -1;
};

} // namespace moestream

// The Python face of the core; src/moestream/_core.pyi documents it.
#include "abi.hpp"
#include "dense_mapping.hpp"
#include "expert_streamer.hpp"
#include "logits.hpp"
#include "mover.hpp"
#include "os.hpp"

#include "llama.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cerrno>
#include <optional>
#include <system_error>

namespace nb = nanobind;
using namespace nb::literals;

namespace moestream {
namespace {

using Release = nb::call_guard<nb::gil_scoped_release>;

std::optional<std::string> or_none(std::string text) {
    return text.empty() ? std::nullopt : std::optional<std::string>(std::move(text));
}

template <typename T> std::uintptr_t address(T pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer);
}

nb::dict counters_dict(const ExpertStreamer & self) {
    const Counters c = const_cast<ExpertStreamer &>(self).store().counters();
    nb::dict       d;
    d["hits"]           = c.hits;
    d["misses"]         = c.misses;
    d["dropped"]        = c.dropped;
    d["routed"]         = c.routed;
    d["evictions"]      = c.evictions;
    d["rereads"]        = c.rereads;
    d["prefetched"]     = c.prefetched;
    d["prefetch_used"]  = c.prefetch_used;
    d["read_bytes"]     = c.read_bytes;
    d["reads"]          = c.reads;
    d["read_ns"]        = c.read_ns;
    d["install_ns"]     = c.install_ns;
    d["wait_ns"]        = c.wait_ns;
    d["callback_ns"]    = c.callback_ns;
    d["guard_loads"]    = c.guard_loads;
    d["resident_bytes"] = c.resident_bytes;
    d["pool_bytes"]     = c.pool_bytes;
    d["decodes"]        = c.decodes;
    return d;
}

void route_standalone(ExpertStreamer & self, int layer, const std::vector<std::vector<std::int32_t>> & ids) {
    if (ids.empty() || ids.front().empty()) {
        throw std::runtime_error("no routing given");
    }
    std::vector<std::int32_t> flat;
    for (const auto & row : ids) {
        if (row.size() != ids.front().size()) {
            throw std::runtime_error("routings differ in length");
        }
        flat.insert(flat.end(), row.begin(), row.end());
    }
    Routing routing;
    routing.ids        = flat.data();
    routing.n_used     = static_cast<std::int64_t>(ids.front().size());
    routing.n_tokens   = static_cast<std::int64_t>(ids.size());
    routing.ids_stride = ids.front().size() * sizeof(std::int32_t);
    self.store().route(layer, routing);
}

void bind_store(nb::module_ & m) {
    nb::class_<ExpertStreamer>(m, "ExpertStore")
        .def(nb::init<const std::vector<std::string> &, bool, const std::string &, const std::string &>(), "files"_a,
             nb::kw_only(), "o_direct"_a, "routing_node"_a = "ffn_moe_topk", "weights_node"_a = "ffn_moe_weights")
        .def("add_tensor", &ExpertStreamer::add_tensor, "name"_a, nb::kw_only(), "layer"_a, "order"_a, "file"_a,
             "offset"_a, "n_expert"_a, "stride"_a)
        .def("buffer_type", [](ExpertStreamer & self) { return address(self.buffer_type()); })
        .def("finish_load", &ExpertStreamer::finish_load)
        .def("place_standalone", &ExpertStreamer::place_standalone)
        .def(
            "start",
            [](ExpertStreamer & self, std::uint64_t budget_bytes, bool retain, std::size_t lanes, bool overlap,
               const std::string & mover, int prefetch, std::uint32_t n_ubatch, std::uint32_t n_expert_used) {
                StoreOptions options;
                options.budget_bytes  = budget_bytes;
                options.retain        = retain;
                options.lanes         = lanes;
                options.overlap       = overlap;
                options.mover         = mover;
                options.prefetch      = prefetch;
                options.n_ubatch      = n_ubatch;
                options.n_expert_used = n_expert_used;
                self.start(options);
            },
            nb::kw_only(), "budget_bytes"_a, "retain"_a, "lanes"_a, "overlap"_a, "mover"_a, "prefetch"_a, "n_ubatch"_a,
            "n_expert_used"_a, Release())
        .def(
            "floor_bytes",
            [](ExpertStreamer & self, std::size_t lanes, std::uint32_t n_ubatch, std::uint32_t n_expert_used) {
                return self.store().floor_bytes(lanes, n_ubatch, n_expert_used);
            },
            nb::kw_only(), "lanes"_a, "n_ubatch"_a, "n_expert_used"_a)
        .def(
            "set_cold_drop",
            [](ExpertStreamer & self, float fraction, bool in_prefill) {
                self.store().set_cold_drop(fraction, in_prefill);
            },
            nb::kw_only(), "fraction"_a, "in_prefill"_a)
        .def(
            "set_route_trace", [](ExpertStreamer & self, bool enabled) { self.store().set_route_trace(enabled); },
            "enabled"_a)
        .def("take_route_trace",
             [](ExpertStreamer & self) {
                 const auto [entries, lost] = self.store().take_route_trace();
                 return nb::make_tuple(nb::bytes(entries.data(), entries.size() * sizeof(RouteEntry)), lost);
             })
        .def("eval_callback",
             [](ExpertStreamer & self) { return std::make_pair(address(&RouterHook::on_node), address(&self.hook())); })
        .def("abort_callback",
             [](ExpertStreamer & self) {
                 return std::make_pair(address(&RouterHook::on_abort_check), address(&self.hook()));
             })
        .def(
            "begin_decode", [](ExpertStreamer & self, bool prefill) { self.store().begin_decode(prefill); },
            nb::kw_only(), "prefill"_a = false)
        .def(
            "end_decode", [](ExpertStreamer & self) { return or_none(self.store().end_decode()); }, Release())
        .def(
            "cancel", [](ExpertStreamer & self) { self.store().cancel(); }, Release())
        .def_prop_ro("halted", [](ExpertStreamer & self) { return !self.store().may_go_on(); })
        .def("counters", &counters_dict)
        .def_prop_ro("mover", [](ExpertStreamer & self) { return self.store().mover_name(); })
        .def_prop_ro("direct_io", [](ExpertStreamer & self) { return self.store().direct_io(); })
        .def_prop_ro("notes", [](ExpertStreamer & self) { return self.store().notes(); })
        .def(
            "wait_idle", [](ExpertStreamer & self) { self.store().wait_idle(); }, Release())
        .def(
            "present_pages", [](ExpertStreamer & self) { return self.store().present_pages(); }, Release())
        .def(
            "inject_read_error",
            [](ExpertStreamer & self, std::int64_t after_reads) { self.store().inject_read_error(after_reads); },
            nb::kw_only(), "after_reads"_a)
        .def("route", &route_standalone, "layer"_a, "ids"_a, Release())
        .def(
            "slice",
            [](ExpertStreamer & self, const std::string & tensor, std::uint32_t expert) {
                std::vector<std::uint8_t> bytes;
                {
                    nb::gil_scoped_release release;
                    bytes = self.slice(tensor, expert);
                }
                return nb::bytes(bytes.data(), bytes.size());
            },
            "tensor"_a, "expert"_a)
        .def("close", &ExpertStreamer::close, Release());
}

void bind_dense(nb::module_ & m) {
    nb::class_<DenseMapping>(m, "DenseMapping")
        .def(nb::init<std::vector<std::string>>(), "files"_a)
        .def("add_tensor", &DenseMapping::add, "name"_a, nb::kw_only(), "file"_a, "offset"_a, "nbytes"_a)
        .def("buffer_type", [](DenseMapping & self) { return address(self.handle()); })
        .def("finish_load", &DenseMapping::finish_load)
        .def_prop_ro("lost_pages", &DenseMapping::lost_pages)
        .def("warm", &DenseMapping::warm, Release());
}

} // namespace
} // namespace moestream

NB_MODULE(_core, m) {
    nb::register_exception_translator([](const std::exception_ptr & pointer, void *) {
        try {
            std::rethrow_exception(pointer);
        } catch (const std::system_error & error) {
            errno = error.code().value();
            PyErr_SetObject(PyExc_OSError, nb::make_tuple(errno, error.what()).ptr());
        }
    });
    m.attr("LLAMA_CPP_PYTHON_VERSION") = MOESTREAM_LLAMA_CPP_PYTHON_VERSION;
    m.attr("PAGE_SIZE")                = moestream::os::page_size();
    m.def(
        "best_logit",
        [](std::size_t address, std::size_t n) {
            const auto best = moestream::best_logit(reinterpret_cast<const float *>(address), n);
            return std::pair<std::int64_t, double>(best.index, static_cast<double>(best.value));
        },
        nb::arg("address"), nb::arg("n"));
    m.def(
        "best_probability",
        [](std::size_t address, std::size_t n, double best) {
            return static_cast<double>(
                moestream::best_probability(reinterpret_cast<const float *>(address), n, static_cast<float>(best)));
        },
        nb::arg("address"), nb::arg("n"), nb::arg("best"));
    m.def("platform_movers", [] {
        std::vector<std::string> names;
        for (const auto & choice : moestream::available_movers()) {
            names.push_back(choice.name);
        }
        return names;
    });
    m.def("why_no_overlap", [] {
        const auto & movers = moestream::available_movers();
        return movers.front().name == "inplace" ? moestream::or_none(movers.front().why_not_better) : std::nullopt;
    });
    m.def(
        "check_abi",
        [](std::size_t model_params_size, std::size_t context_params_size) {
            return moestream::or_none(moestream::check_abi(model_params_size, context_params_size));
        },
        "model_params_size"_a, "context_params_size"_a);
    moestream::bind_store(m);
    moestream::bind_dense(m);
}

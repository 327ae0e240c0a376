#include "mover.hpp"

namespace moestream {

const std::vector<MoverChoice> & available_movers() {
    static const std::vector<MoverChoice> choices = [] {
        std::vector<MoverChoice> found;
        std::string              no_move;
        std::string              no_copy;
        if (userfault_can_move(no_move)) {
            found.push_back({ "move", {} });
        }
        if (userfault_can_copy(no_copy)) {
            found.push_back({ "copy", no_move });
        }
        found.push_back({ "inplace", no_copy.empty() ? no_move : no_copy });
        return found;
    }();
    return choices;
}

std::unique_ptr<PageMover> make_mover(const std::string & name) {
    if (name == "move") {
        return make_move_mover();
    }
    if (name == "copy") {
        return make_copy_mover();
    }
    if (name == "inplace") {
        return make_inplace_mover();
    }
    return nullptr;
}

} // namespace moestream

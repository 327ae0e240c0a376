// Is the llama.cpp that is loaded the one whose headers, and assumptions, were compiled in?
#pragma once

#include <cstddef>
#include <string>

namespace moestream {

// Sizes are those of the Python bindings' structures. Empty, or the first mismatch in words.
std::string check_abi(std::size_t model_params_size, std::size_t context_params_size);

} // namespace moestream

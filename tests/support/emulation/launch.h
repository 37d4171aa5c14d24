// Launches and the few functions of the runtime that the launchers call.
#pragma once

using cudaError_t = int;
using cudaStream_t = void*;
enum : int {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorLaunchFailure = 719
};
enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize,
  cudaFuncAttributePreferredSharedMemoryCarveout
};

namespace emulation {

constexpr size_t kSharedUnasked = 48 << 10;  // a block gets this much without cudaFuncSetAttribute
constexpr size_t kSharedMost = 99 << 10;     // the least that a card from sm_80 on can give

inline int g_error = cudaSuccess;
inline std::string g_message = "no error";
inline std::map<const void*, size_t> g_shared_allowed;

inline void set_error(int error, const std::string& message) {
  g_error = error;
  g_message = message;
}

template <class... Parameters>
const void* key_of(void (*kernel)(Parameters...)) {
  return reinterpret_cast<const void*>(kernel);
}

// What `kernel<<<grid, block, bytes, stream>>>(arguments)` becomes.
class Launch {
 public:
  Launch(dim3 grid, dim3 block, size_t bytes = 0, cudaStream_t = nullptr)
      : grid_(grid), block_(block), bytes_(bytes) {}

  template <class... Parameters, class... Arguments>
  void operator()(void (*kernel)(Parameters...), Arguments... arguments) const {
    const auto found = g_shared_allowed.find(key_of(kernel));
    const size_t allowed = found == g_shared_allowed.end() ? kSharedUnasked : found->second;
    if (bytes_ > allowed)
      return set_error(cudaErrorInvalidValue, "more shared memory than the kernel may have");
    if (grid_.count() == 0 || block_.count() == 0 || block_.count() > unsigned(kMostLanes))
      return set_error(cudaErrorInvalidConfiguration, "a launch of no blocks or too many threads");
    const std::string failure = run_grid(grid_, block_, bytes_, [=] { kernel(arguments...); });
    if (!failure.empty()) set_error(cudaErrorLaunchFailure, failure);
  }

 private:
  dim3 grid_, block_;
  size_t bytes_;
};

}  // namespace emulation

template <class... Parameters>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Parameters...), cudaFuncAttribute attribute,
                                 int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (value < 0 || size_t(value) > emulation::kSharedMost) {
    emulation::set_error(cudaErrorInvalidValue, "more shared memory than a block can have");
    return cudaErrorInvalidValue;
  }
  emulation::g_shared_allowed[emulation::key_of(kernel)] = size_t(value);
  return cudaSuccess;
}

inline cudaError_t cudaGetLastError() {
  const int error = emulation::g_error;
  emulation::g_error = cudaSuccess;
  return error;
}

inline cudaError_t cudaPeekAtLastError() { return emulation::g_error; }

inline const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : emulation::g_message.c_str();
}

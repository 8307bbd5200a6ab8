/* PyTorch's Flight Recorder, for kolo: the last collectives of this process in all its groups, which are written to a
 * file when a group has failed. TORCH_FR_BUFFER_SIZE=N turns it on, and says how many; TORCH_FR_DUMP_TEMP_FILE is the
 * file's name but for the rank. `torchfrtrace` compares the files of all ranks.
 *
 * PyTorch's own recorder cannot be used: its libraries do not export it, and what a backend instantiates of its
 * template is another recorder, which PyTorch's functions do not dump. What they do export writes the file. Messages
 * are left out: torchfrtrace would look for each on all ranks of the group.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>

#include "torch_compat.h"

namespace kolo_torch {

/* A process group, as it is named in the record. */
struct Group {
    std::tuple<std::string, std::string> name; /* and description */
    std::vector<uint64_t> ranks;               /* of its members in the whole job */
    int rank;                                  /* in the group */
    std::chrono::milliseconds timeout;
};

#if KOLO_TORCH(2, 13)

class FlightRecord {
  public:
    static FlightRecord *get(); /* NULL: it is off */

    /* A collective under that title of the profiler's. Returns its number. */
    uint64_t begin(const std::shared_ptr<const Group> &group, const char *title, at::TensorList inputs,
                   at::TensorList outputs);
    void complete(uint64_t number);
    void write() noexcept; /* the first time; prints a warning if the file cannot be written */

  private:
    struct Entry {
        uint64_t number, sequence; /* among all, and in the group */
        std::shared_ptr<const Group> group;
        std::string title;
        std::vector<std::vector<int64_t>> input_sizes, output_sizes;
        std::vector<std::string> input_types, output_types;
        int64_t begun_ns, completed_ns; /* since 1970; 0: not yet */
    };

    explicit FlightRecord(size_t size) : size_(size) {}
    std::string pickled();

    const size_t size_;
    std::mutex mutex_; /* of all below */
    std::vector<Entry> entries_;
    std::map<std::string, uint64_t> sequences_; /* by group */
    uint64_t count_ = 0;
    bool is_written_ = false;
};

#else

class FlightRecord {
  public:
    static FlightRecord *get() {
        return nullptr;
    }
    uint64_t begin(const std::shared_ptr<const Group> &, const char *, at::TensorList, at::TensorList) {
        return 0;
    }
    void complete(uint64_t) {}
    void write() noexcept {}
};

#endif

} // namespace kolo_torch

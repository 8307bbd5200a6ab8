/* The record of the last collectives.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "flight_record.h"

#if KOLO_TORCH(2, 13)

#include <cstdlib>
#include <cstring>

#include <kolo.h>

#include <torch/csrc/distributed/c10d/FlightRecorder.hpp>

namespace kolo_torch {

namespace {

using Sizes = std::vector<std::vector<int64_t>>;

Sizes sizes_of(at::TensorList tensors) {
    Sizes sizes;
    for (const at::Tensor &tensor : tensors)
        sizes.push_back(tensor.sizes().vec());
    return sizes;
}

std::vector<std::string> types_of(at::TensorList tensors) {
    std::vector<std::string> types;
    for (const at::Tensor &tensor : tensors)
        types.emplace_back(c10::toString(tensor.scalar_type()));
    return types;
}

/* A list as the one tensor that it stands for. */
Sizes whole(at::TensorList tensors) {
    int64_t numel = 0;
    for (const at::Tensor &tensor : tensors)
        numel += tensor.numel();
    return {{numel}};
}

bool is_even(at::TensorList tensors) {
    for (const at::Tensor &tensor : tensors)
        if (tensor.numel() != tensors[0].numel())
            return false;
    return true;
}

c10::IValue list_of(const Sizes &sizes) {
    auto list = c10d::new_list();
    for (const auto &of_tensor : sizes) {
        auto inner = c10d::new_list();
        for (const int64_t size : of_tensor)
            inner.push_back(size);
        list.push_back(inner);
    }
    return list;
}

c10::IValue time_or_none(int64_t ns) {
    return ns ? c10::IValue(ns) : c10::IValue();
}

} // namespace

FlightRecord *FlightRecord::get() {
    /* Never destroyed: threads may outlive static objects. */
    static FlightRecord *const record = [] {
        const char *const size = std::getenv("TORCH_FR_BUFFER_SIZE");
        const long entries = size ? std::strtol(size, nullptr, 10) : 0;
        return entries > 0 ? new FlightRecord(static_cast<size_t>(entries)) : nullptr;
    }();
    return record;
}

uint64_t FlightRecord::begin(const std::shared_ptr<const Group> &group, const char *title, at::TensorList inputs,
                             at::TensorList outputs) {
    const std::string name = std::strchr(title, ':') + 1;
    Entry entry = {};
    entry.group = group;
    /* torchfrtrace refuses operations, and backends, whose names it does not know: kolo's are said to be Gloo's. */
    entry.title = "gloo:" + (name == "_allgather_base" ? "_all_gather_base" : name);
    entry.input_sizes = sizes_of(inputs);
    entry.output_sizes = sizes_of(outputs);
    entry.input_types = types_of(inputs);
    entry.output_types = types_of(outputs);
    if (name == "all_gather" || name == "reduce_scatter") {
        const at::TensorList list = name == "all_gather" ? outputs : inputs;
        const bool even = is_even(list); /* else a rank's own part differs from the others': nothing to compare */
        entry.title += even ? "" : "_v";
        entry.input_sizes = whole(even ? inputs : list);
        entry.output_sizes = whole(even ? outputs : list);
    }
    entry.begun_ns = c10::getTime();

    std::lock_guard<std::mutex> lock(mutex_);
    entry.sequence = ++sequences_[std::get<0>(group->name)];
    entry.number = count_++;
    const uint64_t number = entry.number;
    if (entries_.size() < size_)
        entries_.push_back(std::move(entry));
    else
        entries_[number % size_] = std::move(entry);
    return number;
}

void FlightRecord::complete(uint64_t number) {
    std::lock_guard<std::mutex> lock(mutex_);
    Entry &entry = entries_[number % size_];
    if (entry.number == number && !entry.completed_ns)
        entry.completed_ns = c10::getTime();
}

std::string FlightRecord::pickled() {
    using namespace c10d;
    auto list = new_list();
    auto groups = new_dict();
    for (size_t i = 0; i < entries_.size(); i++) {
        const Entry &entry = entries_[(count_ + i) % entries_.size()];
        const std::string &group = std::get<0>(entry.group->name);
        auto of_group = new_dict();
        of_group.insert("name", group);
        of_group.insert("desc", std::get<1>(entry.group->name));
        of_group.insert("ranks", c10::str(c10::ArrayRef<uint64_t>(entry.group->ranks)));
        groups.insert_or_assign(group, of_group);

        const auto number = static_cast<int64_t>(entry.number), sequence = static_cast<int64_t>(entry.sequence);
        auto dict = new_dict();
        dict.insert(record_id_key, number);
        dict.insert(op_id_key, number);
        dict.insert(pg_id_key, int64_t{0});
        dict.insert(pg_name_key, entry.group->name);
        dict.insert(collective_seq_id_key, sequence);
        dict.insert(p2p_seq_id_key, int64_t{0});
        dict.insert(is_p2p_key, false);
        dict.insert(profiling_name_key, entry.title);
        dict.insert(input_sizes_key, list_of(entry.input_sizes));
        dict.insert(output_sizes_key, list_of(entry.output_sizes));
        dict.insert(input_dtypes_key, entry.input_types);
        dict.insert(output_dtypes_key, entry.output_types);
        dict.insert(state_key, entry.completed_ns ? completed_state : started_state);
        dict.insert(time_created_key, entry.begun_ns);
        dict.insert(time_discovered_started_key, entry.begun_ns);
        dict.insert(time_discovered_completed_key, time_or_none(entry.completed_ns));
        dict.insert(retired_key, entry.completed_ns != 0);
        dict.insert(timeout_key, int64_t{entry.group->timeout.count()});
        list.push_back(dict);
    }
    auto all = new_dict();
    all.insert(version_key, version_val);
    all.insert(comm_lib_version_key, std::string("kolo ") + kolo_version());
    all.insert(pg_config_key, groups);
    all.insert(pg_status_key, new_dict());
    all.insert(entries_key, list);
    return pickle_str(all);
}

void FlightRecord::write() noexcept {
    std::lock_guard<std::mutex> lock(mutex_);
    if (is_written_ || entries_.empty())
        return;
    is_written_ = true;
    try {
        const Group &group = *entries_.front().group;
        const auto rank = static_cast<int>(group.ranks[static_cast<size_t>(group.rank)]);
        c10d::DebugInfoWriter::getWriter(rank).write(pickled());
    } catch (const std::exception &error) {
        TORCH_WARN("kolo: the record of the last collectives cannot be written: ", error.what());
    }
}

} // namespace kolo_torch

#endif

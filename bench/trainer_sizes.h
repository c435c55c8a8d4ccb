// Models of unusual sizes for bench_trainer: very many tensors, and one very large one. Both return a JSON
// object.
#pragma once

#include <string>
#include <vector>

// many TENSORS KIND STAGE STEPS DIRECTORY   of four elements each; STAGE none|zero1|zero2|zero3, or bare:
//     without the SDK; KIND flat: in one module; layers: two in each child of a ModuleList. Seconds of
//     prepare, of each step, of two saves and a load in DIRECTORY
std::string many_tensors(const std::vector<std::string>& arguments);

// large DIRECTORY   one parameter of 2.2 GB, trained by SGD with DDP, saved, and loaded in zero2: whether
//     the values are right, and the seconds of each
std::string large_parameter(const std::vector<std::string>& arguments);

// Removes an attempt's secrets if no worker is there to do it.
#pragma once

#include <string>

namespace muster::shim {

// Removes the files in `directory`, the directory itself, and its parent if that is then empty. Both must
// belong to this account: follows no link, and changes nothing in another account's directory.
void RemoveSecrets(const std::string& directory);

}  // namespace muster::shim

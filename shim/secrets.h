// The end of an attempt's secrets, where no worker is there to remove them.
#pragma once

#include <string>

namespace muster::shim {

// Removes the files in `directory`, it, and the directory above if that is empty then. Both are this
// account's: nothing is done through a link, or in what is another's.
void RemoveSecrets(const std::string& directory);

}  // namespace muster::shim

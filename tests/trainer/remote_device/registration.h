// What LibTorch has to know of the device: each function registers one part.
#pragma once

namespace remote {

void register_timer();      // of DDP
void register_guard();      // devices, streams and events
void register_hooks();      // pinned memory and generators
void register_operators();  // what is written for the device: memory and copies
void register_recurrent();  // the cell of an LSTM
void register_fallback();   // all other operators

}  // namespace remote

// Package train turns samples into weight updates: GRPO on dialogues and supervised fine-tuning, over one engine.
//
// The backward is layer by layer and owned here: each half layer of the decoder is run once with gradient recording (or
// twice, with recomputation), and asked for its gradients when its turn comes. The head works in chunks of rows, so no
// [tokens, vocabulary] buffer exists; what a loss has to say is a coefficient per trained token for its log-prob and its
// entropy (see Coefficients), so losses are plain functions of numbers.
//
// Every loss is normalised by counts over the whole optimizer step, so gradients do not depend on how samples are packed
// into micro-batches or spread over ranks.
//
// # Ranks
//
// Tensor-parallel ranks (the model's group) hold slices of the weights and work on the same samples; data-parallel ranks
// (Trainer.DP) hold the same weights and work on their shares of each mini-batch. All of them are given all episodes, and
// all report the same metrics. What stops one rank stops every rank before the next collective. SFT knows no data
// parallelism.
//
// # Micro-batches
//
// Their size is memory against speed and never the result. On a CPU about 2,000 tokens are best for a small model: its
// buffers then stay in the cache.
package train

// Package batch does jobs: it generates the completions of all rows of a prompt set and writes them to an output
// folder, each exactly once, even if the process ends in between for any reason.
//
// A [spec.Spec] describes what a job is, and [process.Options] how this process does it. [process.Describe] makes a
// [spec.Job] of the two, and a [Task] is a job with its process. [Task.Run] does the job, or a shard of it, in this
// process; [Task.Submit] puts it into a queue, from which a [distribute.Worker] takes its units. All three use one
// generator over a source of units: everything that is missing, this shard's part of it, or leases of the queue.
//
// A job passes through phases, each a function that makes the next value: Describe makes a Job, prepare.Open a
// [prepare.Opened], resume.Settle a [resume.Saved], and generate.Run generates what is missing and publishes it.
package batch

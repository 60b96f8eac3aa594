// Package batch does jobs: it generates the completions of all rows of a prompt set and writes them to an output
// folder, each exactly once, whatever ends the process in between.
//
// A [Spec] says what a job is, and [Options] how this process does it. [Describe] makes a [Job] of them, a [Process]
// has the options, and a [Task] is the two together. [Task.Run] does the job, or a shard of it, in this process;
// [Task.Submit] puts it into a queue, and a [Worker] takes its units from there. All three are one generator over a
// source of units: all that is missing, this shard's, or leases of the queue.
//
// A job passes through phases, each a function that makes the next value: Describe makes a Job, open an [Opened] of it,
// settle a savedJob, beginRest a unit, generate its completions, and publish the [Report].
//
// Errors name a setting as config files do, in backquotes: `part-rows` is [Spec.PartRows]. A [*FieldError] has the name
// by itself. What shows an error may write it as its users know it, as the command does, which has a flag for each.
package batch

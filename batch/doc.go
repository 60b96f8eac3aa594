// Package batch does jobs: it draws the completions of all rows of a prompt set and writes them to an output folder,
// each exactly once, whatever ends the process in between.
//
// A [Spec] says what the job is, [Options] how this process does it, and a [Task] is the two together. [Task.Run] does
// the job, or a shard of it, in this process; [Task.Submit] puts it into a queue, and a [Worker] takes its units from
// there. All three are one runner over a source of units: all that is missing, this shard's, or leases of the queue.
//
// Errors name a setting as config files do, in backquotes: `part-rows` is [Spec.PartRows]. A [*FieldError] has the name
// by itself. What shows an error may write it as its users know it, as the command does, which has a flag for each.
package batch

package engine

import "github.com/quire/quire/engine/config"

// What an engine is made from, as callers name it: see package config.
type (
	// Config describes an engine.
	Config = config.Config
	// Plan reports what an engine settled on.
	Plan = config.Plan
	// Inspection is a time at which the engine's tables can be looked at, for [Config.Inspect].
	Inspection = config.Inspection
	// Admission is how pages are reserved for sequences.
	Admission = config.Admission
)

// Values of fields of Config.
const (
	Reserve        = config.Reserve
	Overcommit     = config.Overcommit
	LayersUnrolled = config.LayersUnrolled
	LayersLoop     = config.LayersLoop
	WeightsAuto    = config.WeightsAuto
	SpeculateAuto  = config.SpeculateAuto
	MaxDrafts      = config.MaxDrafts
)

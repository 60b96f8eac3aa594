package jinja

// expr is an expression.
type expr interface {
	eval(r *run, s *scope) (any, error)
}

// stmt is a statement or template text.
type stmt interface {
	exec(r *run, s *scope) error
}

type (
	constExpr struct{ value any }
	nameExpr  struct{ name string }
	listExpr  struct{ items []expr }
	tupleExpr struct{ items []expr }
	dictExpr  struct{ keys, values []expr }
	unaryExpr struct {
		op string // "-", "+", "not"
		x  expr
	}
	binaryExpr struct {
		op   string // arithmetic
		l, r expr
	}
	logicExpr struct {
		and  bool
		l, r expr
	}
	concatExpr  struct{ items []expr }
	compareExpr struct {
		first expr
		ops   []string
		rest  []expr
	}
	condExpr struct{ test, yes, no expr } // no may be nil
	attrExpr struct {
		x    expr
		name string
	}
	itemExpr  struct{ x, index expr }
	sliceExpr struct{ x, start, stop, step expr }
	callExpr  struct {
		fn   expr
		args arguments
	}
	filterExpr struct {
		x    expr // nil: the body of a filter block
		name string
		args arguments
	}
	testExpr struct {
		x    expr
		name string
		args arguments
	}
)

// arguments are the arguments of a call as written.
type arguments struct {
	args    []expr
	names   []string // keyword arguments
	values  []expr
	star    expr
	twoStar expr
}

type (
	textStmt   struct{ text string }
	outputStmt struct {
		x    expr
		line int
	}
	ifStmt struct {
		tests  []expr
		bodies [][]stmt
		other  []stmt
		line   int
	}
	forStmt struct {
		target      target
		items       expr
		test        expr
		recursive   bool
		body, other []stmt
		line        int
	}
	setStmt struct {
		target target
		value  expr
		body   []stmt // of {% set x %}...{% endset %}
		filter *filterExpr
		line   int
	}
	withStmt struct {
		targets []target
		values  []expr
		body    []stmt
	}
	macroStmt struct {
		name     string
		params   []string
		defaults []expr // of the last params
		body     []stmt
		// A macro accepts further arguments only if its body has the name varargs or kwargs.
		varargs, kwargs bool
	}
	callStmt struct {
		macro macroStmt // the caller
		call  *callExpr
		line  int
	}
	filterStmt struct {
		filter *filterExpr
		body   []stmt
	}
	scopedStmt struct{ body []stmt }
	jumpStmt   struct{ signal error }
)

// target is the left side of an assignment: a name, an attribute of a namespace, or several targets.
type target struct {
	name, attr string
	many       []target
}

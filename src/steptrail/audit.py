"""The answers of `trail.what_if(...)`: whether recorded runs would have ended otherwise with other settings."""

from steptrail.projections.what_if import Used, WhatIf, WhatIfAnswer, WhatIfRow

__all__ = ["Used", "WhatIf", "WhatIfAnswer", "WhatIfRow"]
